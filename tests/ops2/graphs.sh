#!/bin/sh
# Sequences, optionals, strings and maps in graphs of several nodes, against onnxruntime.
set -u
. tests/cases
write_cases graphs tests/ops2/graphs.py
verify_targets "native c" --rtol 1e-5 --atol 1e-6
