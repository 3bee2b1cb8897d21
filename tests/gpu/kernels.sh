#!/bin/sh
# How many kernels parts of well-known networks become on a GPU: tests/gpu/kernels.py.
. tests/cases
exec $py tests/gpu/kernels.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
