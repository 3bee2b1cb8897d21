#!/bin/sh
# Parameters that are operands, known only at run time: two values on one artefact.
set -u
. tests/cases
write_cases parameters tests/ops2/parameters.py
verify_targets "${TARGETS-native c}" --rtol 1e-3 --atol 1e-5
