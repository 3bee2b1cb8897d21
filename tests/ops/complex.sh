#!/bin/sh
# Complex elements as data, on CPUs and in the simulator.
set -u
. tests/cases
write_cases complex tests/ops/complex.py
rc=0
for target in native c "sm_80 --simulate"; do
	echo "== $target"
	verify_cases --target $target --rtol 0 --atol 0 || rc=1
done
exit $rc
