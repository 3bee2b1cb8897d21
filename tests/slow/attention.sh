#!/bin/sh
# Attention on matrix units, every case on every machine: tests/gpu/attention.py.
. tests/cases
exec $py tests/gpu/attention.py "$tcc" "${TCC_TMP:-build/tests/slow}" all
