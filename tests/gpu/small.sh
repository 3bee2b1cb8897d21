#!/bin/sh
# Small networks that GPU schedules once got wrong, simulated: tests/gpu/small.py.
. tests/cases
exec $py tests/gpu/small.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
