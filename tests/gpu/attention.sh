#!/bin/sh
# Attention on matrix units: tests/gpu/attention.py.
. tests/cases
exec $py tests/gpu/attention.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
