# Usage: exit codes, unknown and misplaced options, and what is made from the tables.
. tests/cmd/lib
expect 2 'usage: tcc-ml COMMAND' "$tcc"
expect 0 'Exit codes' "$tcc" --help
expect 0 'tcc-ml [0-9]' "$tcc" --version
expect 2 "unknown command 'complie'" "$tcc" complie
expect 2 "unknown option '--emitt'; is it --emit?" "$tcc" compile --emitt so x.onnx
expect 2 "unknown option '-x'" "$tcc" compile -x m.onnx
expect 2 "emit is no option of 'run'" "$tcc" run --emit so x.onnx
expect 2 "a value is missing" "$tcc" compile x.onnx --target
expect 2 'takes no value' "$tcc" compile x.onnx --strict=1
expect 2 "'elf' is none of these" "$tcc" compile x.onnx --emit elf
expect 2 "'7' is none of these" "$tcc" compile x.onnx -O7
expect 2 "'many' is not a number" "$tcc" compile x.onnx -j many
expect 2 "'big' is not a size" "$tcc" compile x.onnx --max-arena big
expect 2 "has no '='" "$tcc" compile x.onnx --dim N
expect 2 "unknown pass 'polish'" "$tcc" opt x.onnx --passes polish
expect 2 "pass 'lower' cannot be left out" "$tcc" compile x.onnx --disable-pass lower
expect 2 'compile needs MODEL' "$tcc" compile
expect 2 "'y' is too much" "$tcc" compile x y
expect 2 "unknown target 'sm_1'" "$tcc" compile "$digits" --target sm_1 -o "$t/x"
expect 2 'must be a C identifier' "$tcc" compile "$digits" --symbol-prefix a-b -o "$t/x"
expect 2 'is given twice' "$tcc" compile "$digits" --target x86-64-v3 --target x86-64-v3 -o "$t/x"
expect 2 'for GPU targets' "$tcc" run "$digits" --simulate
expect 3 'No such file' "$tcc" compile "$t/none.onnx" -o "$t/x"
expect 3 'folder' "$tcc" check models
expect 3 'not made by tcc-ml' "$tcc" run /bin/sh
expect 3 'not made by tcc-ml' "$tcc" inspect /bin/sh
expect 2 "has no input\|is missing\|no input 'z'" "$tcc" run "$digits" --input z="$picture"
expect 6 'missing' "$tcc" run "$digits"
expect 3 'No such file' "$tcc" run "$digits" --input picture="$t/none.pgm"
expect 4 'no operator' "$tcc" ops Frobnicate
expect 0 "com.microsoft:Gelu" "$tcc" ops gelu
expect 5 'cannot write' "$tcc" compile "$digits" -o "$t/no/folder/x"
# what follows -- is no option
expect 3 'No such file' "$tcc" check -- --strict

# every option of a command stands in its help, every command and option in the man page
"$tcc" --man >"$t/man"
"$tcc" --completion >"$t/completion"
for c in compile check run verify bench profile inspect opt reduce diff ops targets passes doctor; do
	expect 0 "usage: tcc-ml $c" "$tcc" $c --help
	grep -q "^.B $c\$" "$t/man" || fail "no $c in the man page"
	for o in $(grep -o -- '--[a-z][a-z-]*' "$t/out" | sort -u); do
		grep -q -- "$(echo "$o" | sed 's/-/\\\\-/g')" "$t/man" || fail "no $o in the man page"
		grep -q -- "$o" "$t/completion" || fail "no $o in the completion"
	done
done
[ -z "$("$tcc" passes | awk 'length > 80')" ] || fail "a pass takes more than 80 columns"
if command -v bash >/dev/null; then
	words=$(bash -c ". '$t/completion'; COMP_WORDS=(tcc-ml compile --ta); COMP_CWORD=2; _tcc_ml
		echo \${COMPREPLY[@]}")
	[ "$words" = --target ] || fail "completion says: $words"
fi
