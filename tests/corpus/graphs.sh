#!/bin/sh
# Small graphs that hold what real models had trouble with, against onnxruntime.
set -u
tcc=${TCC_BUILD:-build}/tcc-ml
py=build/venv/bin/python
out=${TCC_TMP:-build/tests}/graphs
skip() {
	echo "$1"
	exit 77
}
[ -x "$tcc" ] || skip "no $tcc"
[ -x $py ] || skip "no $py: run make deps"
rm -rf "$out"
$py tests/corpus/graphs.py "$out" || exit 1
exec "$tcc" verify -j "${TCC_JOBS:-2}" --rtol 1e-5 --atol 1e-6 "$out"/*
