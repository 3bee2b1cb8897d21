#!/bin/sh
# Products and convolutions of narrow types on matrix units: tests/gpu/mma.py.
. tests/cases
exec $py tests/gpu/mma.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
