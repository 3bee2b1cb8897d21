#!/bin/sh
# Products of narrow types on matrix units, every case on every machine: tests/gpu/mma.py.
. tests/cases
exec $py tests/gpu/mma.py "$tcc" "${TCC_TMP:-build/tests/slow}" all
