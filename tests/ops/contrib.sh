#!/bin/sh
# Rarer operators of com.microsoft, against onnxruntime.
set -u
. tests/cases
write_cases contrib tests/ops/contrib.py
rc=0
for target in native c; do
	echo "== $target"
	verify_cases --target $target --rtol 1e-3 --atol 1e-5 || rc=1
done
exit $rc
