#!/bin/sh
# What profile predicts for a GPU that is not here, held to the simulator's counts and the machine's
# row: tests/gpu/predict.py.
. tests/cases
exec $py tests/gpu/predict.py "$tcc" "${TCC_TMP:-build/tests/gpu}"
