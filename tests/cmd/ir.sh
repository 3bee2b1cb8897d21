# The IR in and out: any dump can be fed back, at each level, and gives the same program.
. tests/cmd/lib
expect 0 'lower ' "$tcc" passes
"$tcc" compile "$digits" --dump-dir "$t/dumps" -o "$t/direct"
[ -s "$t/dumps/00-import.ir" ] || fail "no dump of the imported model"
"$t/direct" --input picture="$picture" >"$t/want"
for f in "$t"/dumps/*.ir; do
	"$tcc" compile "$f" -o "$t/again" -q
	"$t/again" --input picture="$picture" >"$t/got"
	cmp "$t/want" "$t/got" || fail "$f gives other results"
	"$tcc" run "$f" --input picture="$picture" --threads 1 >"$t/got"
	cmp "$t/want" "$t/got" || fail "run $f gives other results"
done

# one pass at a time is the same as all
last=$t/dumps/00-import.ir n=0
for p in $("$tcc" passes | awk '{ print $1 }'); do
	n=$((n + 1))
	"$tcc" opt "$last" --passes=$p -o "$t/step$n.ir"
	last=$t/step$n.ir
done
"$tcc" opt "$digits" -o "$t/all.ir"
"$tcc" compile "$digits" --emit ir -o "$t/loop.ir"
sed 's/ file "[^"]*"/ file/' "$last" >"$t/a"
sed 's/ file "[^"]*"/ file/' "$t/all.ir" | cmp - "$t/a" || fail "step by step differs"
sed 's/ file "[^"]*"/ file/' "$t/loop.ir" | cmp - "$t/a" || fail "--emit ir differs"

expect 0 'module "digits" graph' "$tcc" compile "$digits" --emit ir --stage graph
expect 0 'module "digits" tensor' "$tcc" compile "$digits" --emit ir --stage tensor
expect 0 'module "digits" tensor' "$tcc" compile "$digits" --stop-after lower
expect 0 '// after inline' "$tcc" opt "$digits" --dump-after inline
expect 0 'schedule .* ms' "$tcc" compile "$digits" --time-passes -o "$t/x"
expect 0 '' "$tcc" compile models/mlp.onnx --check-passes -o "$t/x"
expect 2 'for ONNX models' "$tcc" compile "$t/all.ir" --dim batch=2 -o "$t/x"
expect 2 "needs tensor level" "$tcc" opt "$digits" --passes=schedule
echo 'module "x" graph oops' >"$t/bad.ir"
expect 3 'bad.ir' "$tcc" check "$t/bad.ir"
