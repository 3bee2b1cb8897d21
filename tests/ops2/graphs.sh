#!/bin/sh
# Sequences, optionals, strings and maps in graphs of several nodes, against onnxruntime.
set -u
. tests/cases
write_cases graphs tests/ops2/graphs.py
rc=0
for target in native c; do
	echo "== $target"
	verify_cases --target $target --rtol 1e-5 --atol 1e-6 || rc=1
done
exit $rc
