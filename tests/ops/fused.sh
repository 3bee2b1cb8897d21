#!/bin/sh
# Fused operators of com.microsoft that onnxruntime's CPU does not have, in each of their types.
set -u
. tests/cases
rc=0
write_cases fused_f32 tests/ops/fused.py f32
verify_targets "native c sm_80+--simulate" --rtol 1e-4 --atol 1e-5 || rc=1
MOST=12 verify_targets "gfx942+--simulate" --rtol 1e-4 --atol 1e-5 || rc=1
write_cases fused_f64 tests/ops/fused.py f64
verify_targets "native" --rtol 1e-4 --atol 1e-5 || rc=1
for type in f16 bf16; do                         # each step is rounded to the type
	write_cases fused_$type tests/ops/fused.py $type
	verify_targets "native" --rtol 4e-2 --atol 4e-2 || rc=1
done
exit $rc
