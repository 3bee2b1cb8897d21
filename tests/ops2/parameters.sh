#!/bin/sh
# Parameters that are operands, known only at run time: two values on one artefact.
set -u
. tests/cases
write_cases parameters tests/ops2/parameters.py
rc=0
for target in ${TARGETS-native c}; do
	echo "== $target"
	verify_cases --target $(echo "$target" | tr + ' ') --rtol 1e-3 --atol 1e-5 || rc=1
done
exit $rc
