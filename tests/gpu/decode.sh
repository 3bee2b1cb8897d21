#!/bin/sh
# A decoder's step: products of few rows, caches, launches: tests/gpu/decode.py.
. tests/cases
exec $py tests/gpu/decode.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
