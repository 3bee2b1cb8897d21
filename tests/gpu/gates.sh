#!/bin/sh
# Registers, spills and occupancy of a fixed list of kernels: tests/gpu/gates.py.
. tests/cases
exec $py tests/gpu/gates.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
