#!/bin/sh
# Makes the Python environment DIR with the packages of a requirements file, if it lacks them.
# usage: venv.sh DIR REQUIREMENTS
set -u
dir=$1
req=$2
stamp=$dir/$(basename "$req")
cmp -s "$req" "$stamp" && exit 0
echo "deps: Python packages into $dir by pip:"
grep -v '^$' "$req" | sed 's/^/  /'
for py in /usr/bin/python3 python3; do
	"$py" -m venv "$dir" >/dev/null 2>&1 && break
done
"$dir/bin/pip" install -q --disable-pip-version-check -r "$req" || exit 1
cp "$req" "$stamp"
