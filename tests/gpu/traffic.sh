#!/bin/sh
# What kernels for sm_80 read and write, as the simulator counts it: tests/gpu/traffic.py.
. tests/cases
exec $py tests/gpu/traffic.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
