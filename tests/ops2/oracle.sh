#!/bin/sh
# Operators and options that the official tests leave out, against onnxruntime.
set -u
tcc=${TCC_BUILD:-build}/tcc-ml
py=build/venv/bin/python
out=${TCC_TMP:-build/tests}/oracle
skip() {
	echo "$1"
	exit 77
}
[ -x "$tcc" ] || skip "no $tcc"
[ -x $py ] || skip "no $py: run make deps"
rm -rf "$out"
$py tests/ops2/oracle.py "$out" || exit 1
"$tcc" verify -j "${TCC_JOBS:-2}" --rtol 1e-3 --atol 1e-5 "$out"/* >"$out.log" 2>&1
grep -v -e '^PASS' -e ' skipped$' "$out.log"
count() {
	grep -c -E "^($1) " "$out.log"
}
echo "$(count PASS) passed, $(count 'FAIL|ERROR') failed, $(count 'UNSUPPORTED|SKIP') skipped"
