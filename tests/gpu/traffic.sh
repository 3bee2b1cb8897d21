#!/bin/sh
# What kernels for sm_80 read and write, as the simulator counts it: tests/gpu/traffic.py.
tcc=${TCC_BUILD:-build}/tcc-ml
py=build/venv/bin/python
[ -x "$tcc" ] || { echo "no $tcc"; exit 77; }
[ -x $py ] || { echo "no $py: run make check"; exit 77; }
exec $py tests/gpu/traffic.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
