#!/bin/sh
# Sequences, optionals, strings and maps in graphs of several nodes, against onnxruntime.
set -u
tcc=${TCC_BUILD:-build}/tcc-ml
py=build/venv/bin/python
out=${TCC_TMP:-build/tests}/graphs
skip() {
	echo "$1"
	exit 77
}
[ -x "$tcc" ] || skip "no $tcc"
[ -x $py ] || skip "no $py: run make deps"
rm -rf "$out"
$py tests/ops2/graphs.py "$out" || exit 1
passed=0 failed=0
for target in native c; do
	"$tcc" verify --target $target -j "${TCC_JOBS:-2}" --rtol 1e-5 --atol 1e-6 "$out"/* >"$out.log" 2>&1
	grep -v -e '^PASS' -e ' skipped$' "$out.log" | sed "s/^/$target: /"
	passed=$((passed + $(grep -c '^PASS ' "$out.log")))
	failed=$((failed + $(grep -c -E '^(FAIL|ERROR|UNSUPPORTED|SKIP) ' "$out.log")))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
