#!/bin/sh
# Seeded random numbers are the documented ones, the same on every kind of target.
set -u
. tests/cases
write_cases random tests/ops/draws.py
verify_targets "native c sm_80+--simulate gfx942+--simulate" --rtol 1e-5 --atol 1e-6
