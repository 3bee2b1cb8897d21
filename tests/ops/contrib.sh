#!/bin/sh
# Rarer operators of com.microsoft, against onnxruntime.
set -u
. tests/cases
write_cases contrib tests/ops/contrib.py
verify_targets "native c" --rtol 1e-3 --atol 1e-5
