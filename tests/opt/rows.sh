#!/bin/sh
# Equal rows give equal bits, wherever they stand.
. tests/cases
t=${TCC_TMP:-build/tests}/rows
rc=0
for target in "native --threads 2" c "sm_80 --simulate=fast" "gfx942 --simulate=fast"; do
	echo "== $target"
	rm -rf "$t" && mkdir -p "$t"
	$py tests/opt/rows.py "$tcc" "$t" --target $target || rc=1
done
exit $rc
