#!/bin/sh
# Sums of products of bytes: in fours where the machine has the instruction, and right everywhere, for
# every pair of types, lengths that are no multiple of four, windows over padded values, groups.
. tests/cmd/lib
n=0 lines= results= params=
out() {
	lines="$lines
	%$n = tensor $1"
	results="$results${results:+, }\"o$n\" = %$n"
	n=$((n + 1))
}

for a in u8 i8; do
	params="$params${params:+, }%v$a: $a[r, 7], %w$a: $a[7, 20], %x$a: $a[r, 64], %y$a: $a[64, 33], %z$a: $a[1, 8, 9, 9], %k$a: $a[16, 4, 3, 3]"
done
for a in u8 i8; do
	for b in u8 i8; do
		out "(i: r, j: 20) i32 { sum(k: 7) { i32(%v$a[i, k]) * i32(%w$b[k, j]) } }"
		out "(i: r, j: 33) i32 { sum(k: 64) { i32(%x$a[i, k]) * i32(%y$b[k, j]) } }"
		out "(i: r) i32 { sum(k: 64) { i32(%x$a[i, k]) * i32(%x$b[i, k]) } }"
		out "(g: 2, o: 8, y: 7, x: 7) i32 { sum(c: 4, r: 3, s: 3) {
		i32(%z$a[0, g * 4 + c, y + r, x + s]) * i32(%k$b[g * 8 + o, c, r, s]) } }"
	done
done
cat >"$t/bytes.ir" <<IR
module "bytes" tensor

sym r : 0..2147483647 = dim(%vu8, 0), dim(%xu8, 0), dim(%vi8, 0), dim(%xi8, 0)
func main($params) {$lines
	return $results
}
IR
"$tcc" opt "$t/bytes.ir" --passes=dot4 --target icelake-server >"$t/icelake.ir" || exit 1
[ "$(grep -c 'dot4(' "$t/icelake.ir")" = $n ] || fail "not all $n sums are in fours"
"$tcc" opt "$t/bytes.ir" --passes=dot4 --target x86-64-v3 | grep -q 'dot4(' && fail "fours without an instruction"
"$tcc" verify "$t/bytes.ir" || fail "as the machine has it: wrong"
sed 's/ target "[^"]*"/ target "x86-64-v2"/; s/ host "[^"]*"/ host "x86-64-v2"/' "$t/icelake.ir" >"$t/plain.ir"
"$tcc" verify "$t/plain.ir" --target x86-64-v2 || fail "spelled out: wrong"
"$tcc" verify "$t/plain.ir" --target c || fail "in C: wrong"
