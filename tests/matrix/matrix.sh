#!/bin/sh
# Operators with varied types, ranks and edge inputs (matrix.py) against the oracles, and with the same inputs
# against the evaluator. A fixed part; SHARE=K/N TARGETS="..." take others ("+" for a blank).
set -u
. tests/cases
tests=build/backend
[ -d $tests/node ] || skip "no $tests: run make $tests/made"
export SHARE="${SHARE-0/40}"
write_cases matrix tests/matrix/matrix.py "$tcc" $tests
rc=0
for target in ${TARGETS-native c}; do
	echo "== $target"
	verify_cases --target $(echo "$target" | tr + ' ') || {
		rc=1
		$py tests/matrix/split.py "$out.nodes" $(sed -n "s,^[A-Z]* \([^ :]*\):.*,$out/\1,p" "$out.log")
		"$tcc" verify --target $(echo "$target" | tr + ' ') "$out.nodes"/* 2>/dev/null | grep -v -e '^PASS' -e 'skipped$'
		rm -rf "$out.nodes"
	}
done
echo "== the evaluator"
rm -f "$out"/*/test_data_set_0/output_*
verify_cases --target native || rc=1
exit $rc
