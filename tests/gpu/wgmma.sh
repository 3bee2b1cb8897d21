#!/bin/sh
# Products and convolutions by warp groups on sm_90a: tests/gpu/wgmma.py.
. tests/cases
exec $py tests/gpu/wgmma.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
