#!/bin/sh
# Installs the Debian packages of a group of packages.txt that are missing, and says why.
# usage: deps.sh GROUP; needs neither root nor a network when nothing is missing.
set -u
list=$(dirname "$0")/packages.txt
group=$1
installed() {
	dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}
rows() {
	sed -n "s/^$group  *//p" "$list"
}
if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system; install by hand what is needed:"
	rows
	exit 0
fi
missing=
for p in $(rows | cut -d' ' -f1); do
	installed "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
echo "deps: installing by apt-get:"
for p in $missing; do
	rows | grep "^$p " | sed 's/^/  /'
done
as_root=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || {
		echo "deps: run as root: apt-get install$missing" >&2
		exit 1
	}
	as_root=sudo
fi
log=build/deps/apt.log
apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -y -q --no-install-recommends "$@" >>$log 2>&1
}
mkdir -p build/deps
apt update
if ! apt install $missing; then
	tail -n 20 $log >&2
	echo "deps: apt-get failed, see $log; by hand: apt-get install$missing" >&2
	exit 1
fi
