#!/bin/sh
# Old forms of operators, against onnxruntime and the text of their version.
set -u
. tests/cases
write_cases versions tests/frontend/versions.py
verify_cases --rtol 1e-4 --atol 1e-5
