# The examples of ir/README.md are read, print the same when they are read again, and run.
. tests/cmd/lib
awk -v t="$t" '/^    module "/ { f = t "/" ++n ".ir" } /^$/ { f = "" } f { print >f }' ir/README.md
for level in graph tensor loop; do
	f=$(grep -l "^    module .* $level" "$t"/[0-9]*.ir) || fail "no example at $level level"
	expect 0 "" "$tcc" opt "$f" --passes= -o "$t/once.ir"
	expect 0 '' "$tcc" opt "$t/once.ir" --passes= -o "$t/twice.ir"
	cmp "$t/once.ir" "$t/twice.ir" || fail "$level: prints differently when it is read back"
	[ $level = loop ] || expect 0 '^PASS' "$tcc" verify "$f"
	cp "$f" "$t/$level.ir"
done
# the loop's kernel is for CPUs: right on each of them, and refused on a GPU
printf '1 2 3\n-4 5 6\n' >"$t/x.txt"
for target in x86-64-v3 c; do
	expect 0 '^y: float32\[2\]: 6 7$' "$tcc" run "$t/loop.ir" --target $target --input x="$t/x.txt"
done
expect 3 'a parallel loop in a kernel for sm_80' "$tcc" run "$t/loop.ir" --target sm_80 --simulate --input x="$t/x.txt"
# what does not fit is its author's error
sed 's/%trip: i64\[\], //' "$t/graph.ir" >"$t/bad.ir"
expect 3 "a loop's body takes the trip" "$tcc" check "$t/bad.ir"
