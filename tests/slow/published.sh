#!/bin/sh
# Predictions for GPUs beside published measurements, and their goals: tests/slow/published.py.
. tests/cases
exec $py tests/slow/published.py "$tcc" "${TCC_TMP:-build/tests/published}"
