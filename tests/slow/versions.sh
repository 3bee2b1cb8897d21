#!/bin/sh
# The official tests with older operator sets; and every operator's every version has a case in these, the
# official tests or those for what they leave out.
set -u
. tests/cases
tests=build/backend
[ -d $tests/node ] || skip "no $tests: run make $tests/made"
for part in frontend/versions ops2/oracle ops2/graphs; do
	write_cases "$(basename $part)" tests/$part.py >/dev/null
	others="${others-} $out"
done
write_cases reversioned tests/slow/versions.py $tests
rc=0
verify_cases --rtol 1e-3 --atol 1e-5 || rc=1
$py tests/slow/pairs.py $tests "$out" $others || rc=1
exit $rc
