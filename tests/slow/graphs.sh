#!/bin/sh
# Random graphs (tests/fuzz/graphs.py) against onnxruntime: 300 natively, a part of them on other targets.
# SEED=N takes others.
tcc=${TCC_BUILD:-build}/tcc-ml t=${TCC_TMP:-build/graphs} rc=0
mkdir -p "$t"
build/venv/bin/python tests/fuzz/graphs.py "$t/cases" "${SEED:-0}" 300 || exit 1
first() { ls -d "$t"/cases/* | sort | head -n "$1"; }
check() {
	n=$1
	shift
	echo "== $*"
	"$tcc" verify "$@" $(first "$n") >"$t/out" || rc=1
	grep -v '^PASS' "$t/out"
	tail -n 1 "$t/out" >>"$t/totals"
}

rm -f "$t/totals"
check 300
check 60 -O0
check 60 --target x86-64-v2
check 60 --target c
check 40 --target sm_80 --simulate
check 40 --target gfx942 --simulate
awk '{ p += $1; f += $3; s += $5 } END { printf "%d passed, %d failed, %d skipped\n", p, f, s }' "$t/totals"
exit $rc
