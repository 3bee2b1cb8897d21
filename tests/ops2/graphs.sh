#!/bin/sh
# Sequences, optionals, strings and maps in graphs of several nodes, against onnxruntime.
set -u
. tests/cases
write_cases graphs tests/ops2/graphs.py
passed=0 failed=0
for target in native c; do
	verify_cases --target $target --rtol 1e-5 --atol 1e-6 | sed "s/^/$target: /"
	passed=$((passed + $(count PASS)))
	failed=$((failed + $(count 'FAIL|ERROR|UNSUPPORTED|SKIP')))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
