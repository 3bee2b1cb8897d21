# diff names the first option, kernel and constant in which two models or artefacts differ.
. tests/cmd/lib
for d in one two; do
	mkdir -p "$t/$d"
	"$tcc" compile "$digits" -o "$t/$d/digits"
done
"$tcc" compile "$digits" --strict -o "$t/strict"
expect 0 '^no difference$' "$tcc" diff "$t/one/digits" "$t/two/digits"
expect 0 '^no difference$' "$tcc" diff "$digits" "$digits"
expect 0 '^no difference$' "$tcc" diff "$digits" "$t/one/digits"
expect 1 '^option options.strict: none | "true"' "$tcc" diff "$t/one/digits" "$t/strict"
grep -q '^kernel k0_cast_div.digest' "$t/out" || fail "no kernel: $(cat "$t/out")"
[ "$(grep -c '^kernel' "$t/out")" = 1 ] || fail "more than the first kernel"

# a constant: one weight more
"$tcc" opt "$digits" --stop-after simplify -o "$t/a.ir"
sed '0,/\(= const f32\[[0-9]*\] {\)[-0-9.e]*/s//\17.25/' "$t/a.ir" >"$t/b.ir"
cmp -s "$t/a.ir" "$t/b.ir" && fail "no constant to change"
[ -e "$t/a.ir.data" ] && cp "$t/a.ir.data" "$t/b.ir.data"
expect 1 '^buffer [0-9]*.digest' "$tcc" diff "$t/a.ir" "$t/b.ir"
grep -q '^kernel' "$t/out" && fail "kernels differ by a weight: $(cat "$t/out")"
expect 1 '' "$tcc" diff "$t/one/digits" "$t/strict" --json
grep -q '"part": "option", "where": "options.strict"' "$t/out" || fail "JSON"
expect 3 '' "$tcc" diff "$digits" "$t/none.onnx"
expect 2 'diff needs' "$tcc" diff "$digits"
