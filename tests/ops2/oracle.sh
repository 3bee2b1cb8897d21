#!/bin/sh
# Operators and options that the official tests leave out, against onnxruntime.
set -u
. tests/cases
write_cases oracle tests/ops2/oracle.py
verify_cases --rtol 1e-3 --atol 1e-5
