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
"$tcc" opt "$t/bytes.ir" --passes=dot4 --target riscv64 | grep -q 'dot4(' && fail "fours without an instruction"
"$tcc" verify "$t/bytes.ir" || fail "as the machine has it: wrong"
on() {   # the sums in fours, for another machine

	sed "s/ target \"[^\"]*\"/ target \"$1\"/; s/ host \"[^\"]*\"/ host \"$1\"/" "$t/icelake.ir" >"$t/on.ir"
}
targets="x86-64 x86-64-v2 c"
grep -qw avx2 /proc/cpuinfo && targets="$targets x86-64-v3"
grep -qw avx512bw /proc/cpuinfo && targets="$targets x86-64-v4"
grep -qw avx_vnni /proc/cpuinfo && targets="$targets alderlake"
for target in $targets; do
	on $target
	"$tcc" verify "$t/on.ir" --target $target || fail "$target: wrong"
done

# words that a sum of one column reads stay a view of bytes that lie side by side
cat >"$t/column.ir" <<IR
module "column" tensor

sym r : 0..2147483647 = dim(%x, 0)
func main(%x: f32[r, 9, 64], %w: i8[64, 1]) {
	%0 = tensor (i: r, j: 9, k: 64) u8 { u8(rint(%x[i, j, k] * 40.0)) }
	%1 = tensor (i: r, j: 9, k: 1) i32 { sum(l: 64) { i32(%0[i, j, l]) * i32(%w[l, k]) } }
	return "y" = %1
}
IR
"$tcc" opt "$t/column.ir" --target icelake-server --stop-after layout >"$t/layout.ir" || fail "no layout"
grep -q ' u8 .*order' "$t/layout.ir" && fail "bytes lie apart: $(cat "$t/layout.ir")"
grep 'dot4(' "$t/layout.ir" | grep -q '<<' && fail "words are spelled out: $(cat "$t/layout.ir")"
"$tcc" verify "$t/column.ir" || fail "one column: wrong"

# a step's values stay in registers, where unsigned bytes take one of their own
cat >"$t/tile.ir" <<IR
module "tile" tensor

func main(%x: u8[56, 512], %w: i8[512, 64]) {
	%0 = tensor (i: 56, j: 64) i32 { sum(k: 512) { i32(%x[i, k]) * i32(%w[k, j]) } }
	return "y" = %0
}
IR
"$tcc" compile "$t/tile.ir" --target icelake-server --emit asm -o "$t/tile.s" || fail "no code"
grep -q 'vpdpbusd' "$t/tile.s" || fail "not in fours"
grep -q '(%rsp).*zmm\|zmm.*(%rsp)' "$t/tile.s" && fail "sums leave their registers"

# pixels of few channels become words at once, no bytes between: padded or not, flipped, with other readers
sums=$n lines= results= n=0
for c in 3 4; do
	w=$n n=$((n + 1))
	lines="$lines
	%$w = tensor (o: 16, j: $c, r: 3, s: 3) i8 { i8(o * 37 + j * 11 + r * 5 + s * 3) }"
	for d in u8 i8; do
		z=$([ $d = u8 ] && echo 100 || echo -3)
		lines="$lines
	%$n = tensor (i: n, j: $c, k: 20, l: 20) $d { $d(rint(%x[i, j, k, l] / 0.02) + $z.0) }
	%$((n + 1)) = tensor (i: n, j: $c, k: 22, l: 22) $d { k - 1 < 20 & 0 <= k - 1 & (l - 1 < 20 & 0 <= l - 1) ? %$n[i, j, k - 1, l - 1] : $z$d }
	%$((n + 2)) = tensor (i: n, o: 16, k: 20, l: 20) i32 { sum(j: $c, r: 3, s: 3) { i32(%$((n + 1))[i, j, k + r, l + s]) * i32(%$w[o, j, r, s]) } }
	%$((n + 3)) = tensor (i: n, o: 16, k: 18, l: 18) i32 { sum(j: $c, r: 3, s: 3) { i32(%$n[i, j, k + r, l + s]) * i32(%$w[o, j, r, s]) } }"
		for i in $([ $c = 4 ] && echo 0) 2 3; do
			results="$results${results:+, }\"o$((n + i))\" = %$((n + i))"
		done
		n=$((n + 4))
	done
done
cat >"$t/pixels.ir" <<IR
module "pixels" tensor

sym n : 0..2147483647 = dim(%x, 0)
func main(%x: f32[n, 4, 20, 20]) {$lines
	return $results
}
IR
"$py" -c '
import sys, numpy as np
x = (np.random.default_rng(5).standard_normal((2, 4, 20, 20)) * 2).astype(np.float32)
x[0, :, 3, 4], x[1, 2, 0, 0], x[1, 1, 7, 19] = np.nan, np.inf, -np.inf
np.save(sys.argv[1], x)' "$t/pixels.npy"
"$tcc" opt "$t/pixels.ir" --target icelake-server --stop-after fold >"$t/words.ir" || fail "no words"
[ "$(grep -c ' [ui]8 {' "$t/words.ir")" = 2 ] || fail "bytes of pixels are stored: $(grep ' [ui]8 {' "$t/words.ir")"
"$tcc" run "$t/pixels.ir" --input "x=$t/pixels.npy" --output-dir "$t/px" >/dev/null || fail "pixels: does not run"
"$tcc" run "$t/pixels.ir" --input "x=$t/pixels.npy" --output-dir "$t/px0" --disable-pass dot4 >/dev/null || fail "pixels: no sums"
for f in "$t"/px/*.npy; do
	cmp "$f" "$t/px0/${f##*/}" || fail "pixels: ${f##*/}"
done

# SDOT, and USDOT
command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null || exit 0
"$py" - "$t" >"$t/args" <<'PY'
import sys
import numpy as np
rng = np.random.default_rng(1)
shapes = {"v": (6, 7), "w": (7, 20), "x": (6, 64), "y": (64, 33), "z": (1, 8, 9, 9), "k": (16, 4, 3, 3)}
for a, dtype in (("u8", np.uint8), ("i8", np.int8)):
    for name, shape in shapes.items():
        file = f"{sys.argv[1]}/{name}{a}.npy"
        np.save(file, rng.integers(0, 256, shape).astype(np.uint8).view(dtype))
        print("--input", f"{name}{a}={file}")
PY
"$tcc" run "$t/bytes.ir" --target x86-64 --disable-pass dot4 $(cat "$t/args") --output-dir "$t/want" >/dev/null || fail "no results"
for target in cortex-a76 neoverse-v1; do
	"$tcc" opt "$t/bytes.ir" --target $target --passes=dot4 | grep -q 'dot4(' || fail "$target: no fours"
	"$tcc" compile "$t/bytes.ir" --target $target -o "$t/$target" || fail "$target: does not compile"
	qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu "$t/$target" $(cat "$t/args") --output-dir "$t/$target.out" >/dev/null ||
		fail "$target: does not run"
	i=0
	while [ $i -lt $sums ]; do
		cmp "$t/want/output_$i.npy" "$t/$target.out/output_$i.npy" || fail "$target: output $i"
		i=$((i + 1))
	done
done
