#!/bin/sh
# Seeded random numbers are the documented ones, the same on every kind of target.
set -u
. tests/cases
write_cases random tests/ops/draws.py
rc=0
for target in native c "sm_80 --simulate" "gfx942 --simulate"; do
	echo "== $target"
	verify_cases --target $target --rtol 1e-5 --atol 1e-6 || rc=1
done
exit $rc
