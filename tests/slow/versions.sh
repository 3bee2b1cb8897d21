#!/bin/sh
# The official tests with older operator sets, against onnxruntime.
set -u
tcc=${TCC_BUILD:-build}/tcc-ml
py=build/venv/bin/python
tests=build/backend
out=${TCC_TMP:-build/tests}/reversioned
skip() {
	echo "$1"
	exit 77
}
[ -x "$tcc" ] || skip "no $tcc"
[ -x $py ] || skip "no $py: run make deps"
[ -d $tests/node ] || skip "no $tests: run make $tests/made"
rm -rf "$out"
$py tests/slow/versions.py $tests "$out" || exit 1
"$tcc" verify -j "${TCC_JOBS:-2}" --rtol 1e-3 --atol 1e-5 "$out"/* >"$out.log" 2>&1
grep -v -e '^PASS' -e ' skipped$' "$out.log"
count() {
	grep -c -E "^($1) " "$out.log"
}
echo "$(count PASS) passed, $(count 'FAIL|ERROR|UNSUPPORTED') failed, $(count 'SKIP') skipped"
[ "$(count 'FAIL|ERROR|UNSUPPORTED')" = 0 ]
