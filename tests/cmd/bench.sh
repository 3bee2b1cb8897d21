# bench holds a model or a program to a baseline: exit code 1 where it is too much slower.
. tests/cmd/lib
"$tcc" bench "$digits" --duration 0.05 --json="$t/base.json"
sed 's/"median_ms": *[^,]*/"median_ms": 1e6/' "$t/base.json" >"$t/slow.json"
sed 's/"median_ms": *[^,]*/"median_ms": 1e-6/' "$t/base.json" >"$t/fast.json"
echo '{}' >"$t/empty.json"
"$tcc" compile "$digits" -o "$t/digits"
for m in "$digits" "$t/digits"; do
	expect 0 'baseline 1e+06 ms: -100.0 %' "$tcc" bench "$m" --duration 0.05 --baseline "$t/slow.json"
	expect 1 'slower than .*fast.json; 10 % are allowed' \
		"$tcc" bench "$m" --duration 0.05 --baseline "$t/fast.json"
	expect 0 '' "$tcc" bench "$m" --duration 0.05 --baseline "$t/fast.json" --max-regress 1e12 \
		--json="$t/new.json"
	grep -q median_ms "$t/new.json" || fail "no results beside the comparison"
done
expect 3 'no median_ms' "$tcc" bench "$digits" --baseline "$t/empty.json"
expect 3 'none.json' "$tcc" bench "$digits" --baseline "$t/none.json"
