#!/bin/sh
# Complex elements as data, on CPUs and in the simulator.
set -u
. tests/cases
write_cases complex tests/ops/complex.py
verify_targets "native c sm_80+--simulate" --rtol 0 --atol 0
