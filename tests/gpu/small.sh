#!/bin/sh
# Small networks that GPU schedules once got wrong, simulated: tests/gpu/small.py.
tcc=${TCC_BUILD:-build}/tcc-ml
py=build/venv/bin/python
[ -x "$tcc" ] || { echo "no $tcc"; exit 77; }
[ -x $py ] || { echo "no $py: run make check"; exit 77; }
exec $py tests/gpu/small.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
