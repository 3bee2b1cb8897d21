#!/bin/sh
# Weights of few bits and bytes in cublasLt's orders: com.microsoft operators that onnxruntime's
# CPU does not have.
set -u
. tests/cases
rc=0
write_cases bits_f32 tests/ops/bits.py f32
verify_targets "native c sm_80+--simulate" --rtol 1e-4 --atol 1e-4 || rc=1
MOST=8 verify_targets "gfx942+--simulate" --rtol 1e-4 --atol 1e-4 || rc=1
for type in f16 bf16; do                         # each step is rounded to the type
	write_cases bits_$type tests/ops/bits.py $type
	verify_targets "native" --rtol 4e-2 --atol 4e-2 || rc=1
done
exit $rc
