#!/bin/sh
# Complex elements as data, on CPUs and in the simulator.
set -u
. tests/cases
write_cases complex tests/ops/complex.py
passed=0 failed=0
for target in native c "sm_80 --simulate"; do
	verify_cases --target $target --rtol 0 --atol 0 | sed "s/^/$target: /"
	passed=$((passed + $(count PASS)))
	failed=$((failed + $(count 'FAIL|ERROR|UNSUPPORTED|SKIP')))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
