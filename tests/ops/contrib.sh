#!/bin/sh
# Rarer operators of com.microsoft, against onnxruntime.
set -u
. tests/cases
write_cases contrib tests/ops/contrib.py
passed=0 failed=0
for target in native c; do
	verify_cases --target $target --rtol 1e-3 --atol 1e-5 | sed "s/^/$target: /"
	passed=$((passed + $(count PASS)))
	failed=$((failed + $(count 'FAIL|ERROR|UNSUPPORTED|SKIP')))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
