#!/bin/sh
# Recurrences over packed rows: com.microsoft operators that onnxruntime's CPU does not have.
set -u
. tests/cases
rc=0
write_cases varlen_f32 tests/ops/varlen.py f32
verify_targets "native c sm_80+--simulate" --rtol 1e-4 --atol 1e-5 || rc=1
MOST=8 verify_targets "gfx942+--simulate" --rtol 1e-4 --atol 1e-5 || rc=1
write_cases varlen_f16 tests/ops/varlen.py f16   # each step is rounded to the type
verify_targets "native" --rtol 4e-2 --atol 4e-2 || rc=1
exit $rc
