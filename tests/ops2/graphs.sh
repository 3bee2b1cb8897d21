#!/bin/sh
# Sequences, optionals, strings, maps and hard arguments, against onnxruntime or the text.
set -u
. tests/cases
write_cases graphs tests/ops2/graphs.py
verify_targets "native c" --rtol 1e-5 --atol 1e-6
