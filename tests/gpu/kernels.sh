#!/bin/sh
# How many kernels parts of well-known networks become on a GPU: tests/gpu/kernels.py.
tcc=${TCC_BUILD:-build}/tcc-ml
py=build/venv/bin/python
[ -x "$tcc" ] || { echo "no $tcc"; exit 77; }
[ -x $py ] || { echo "no $py: run make check"; exit 77; }
exec $py tests/gpu/kernels.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
