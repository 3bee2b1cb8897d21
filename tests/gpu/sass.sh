#!/bin/sh
# Instructions, registers and spills in the machine code of a fixed list of kernels: tests/gpu/sass.py.
. tests/cases
exec $py tests/gpu/sass.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
