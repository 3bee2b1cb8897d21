#!/bin/sh
# Random graphs (tests/fuzz/graphs.py) against onnxruntime: 300 natively, a part of them on other targets.
# SEED=N takes others.
. tests/cases
write_cases graphs tests/fuzz/graphs.py "${SEED:-0}" 300
rc=0
check() {
	MOST=$1
	shift
	echo "== $*"
	verify_cases "$@" || rc=1
}
check 300
check 60 -O0
check 60 --target x86-64-v2
check 60 --target c
check 40 --target sm_80 --simulate
check 40 --target gfx942 --simulate
exit $rc
