#!/bin/sh
# Quantization goes before what moves or compares its operand: bytes are pooled, joined and transposed, the
# same ones as without the pass; not where a NaN, a falling function or another reader is in the way.
. tests/cmd/lib
cat >"$t/bytes.ir" <<'IR'
module "bytes" tensor

sym n : 0..2147483647 = dim(%x, 0), dim(%y, 0), dim(%f, 0)
func main(%x: u8[n, 3, 16, 16], %y: i8[n, 2, 16, 16], %f: f32[n, 3, 16, 16]) {
	%0 = tensor (i: n, j: 3, k: 16, l: 16) f32 { f32(i32(%x[i, j, k, l]) - 7i32) * 0.02 }
	%1 = tensor (i: n, j: 2, k: 16, l: 16) f32 { f32(i32(%y[i, j, k, l])) * 0.013 }
	%2 = tensor (i: n, j: 3, k: 18, l: 18) f32 { 1 <= k & k < 17 & 1 <= l & l < 17 ? %0[i, j, k - 1, l - 1] : -inf }
	%3 = tensor (i: n, j: 3, k: 8, l: 8) f32 { max(r: 3, s: 3) { %2[i, j, k * 2 + r, l * 2 + s] } }
	%4 = tensor (i: n, j: 3, k: 8, l: 8) u8 { u8(rint(%3[i, j, k, l] / 0.02) + 7.0) }
	%21 = tensor (i: n, j: 3, k: 8, l: 8) f32 { min(r: 2, s: 2) { %0[i, j, k * 2 + r, l * 2 + s] } }
	%5 = tensor (i: n, j: 3, k: 8, l: 8) i8 { i8(rint(%21[i, j, k, l] / 0.017) + 9.0) }
	%6 = tensor (i: n, j: 5, k: 16, l: 16) f32 { j < 3 ? %0[i, j, k, l] : %1[i, j - 3, k, l] }
	%7 = tensor (i: n, j: 16, k: 5, l: 16) f32 { %6[i, k, j, l] }
	%8 = tensor (i: n, j: 16, k: 5, l: 16) i8 { i8(rint(%7[i, j, k, l] / 0.013)) }
	%9 = tensor (i: n, j: 3, k: 16) f32 { min(l: 16) { %0[i, j, k, l] * 1.5 } }
	%10 = tensor (i: n, j: 3, k: 16) f32 { max(l: 16) { %f[i, j, k, l] } }
	%11 = tensor (i: n, j: 3, k: 16) u8 { u8(rint(%10[i, j, k] / 0.02) + 7.0) }
	%12 = tensor (i: n, j: 2, k: 16) f32 { max(l: 16) { %1[i, j, k, l] } }
	%13 = tensor (i: n, j: 2, k: 16) u8 { u8(rint(%12[i, j, k] / -0.02) + 7.0) }
	%14 = tensor (i: n, j: 3, k: 16, l: 16) f32 { %f[i, j, k, l] * 3.0 }
	%15 = tensor (i: n, j: 16, k: 3, l: 16) f32 { %14[i, k, j, l] }
	%16 = tensor (i: n, j: 16, k: 3, l: 16) u8 { u8(rint(%15[i, j, k, l] / 0.03) + 100.0) }
	%17 = tensor (i: n, j: 3, k: 16) u8 { u8(rint(%9[i, j, k] / 0.01)) }
	%18 = tensor (i: n, j: 3, k: 0) f32 { %0[i, j, k, 0] }
	%19 = tensor (i: n, j: 3) f32 { max(k: 0) { %18[i, j, k] } }
	%20 = tensor (i: n, j: 3) u8 { u8(rint(%19[i, j] / 0.02) + 7.0) }
	return "pool" = %4, "scaled" = %5, "join" = %8, "nan" = %11, "falling" = %13, "compute" = %16, "arithmetic" = %17, "none" = %20
}
IR
"$tcc" opt "$t/bytes.ir" --passes=narrow >"$t/narrow.ir" || fail "the pass fails"
for what in ' u8 { max(' ' i8 { min(' ' i8 {.* ? ' ' i8 { %[0-9]*\[i, k, j, l\]' ' u8 { %[0-9]*\[i, k, j, l\]'; do
	grep -q "$what" "$t/narrow.ir" || fail "no '$what': $(cat "$t/narrow.ir")"
done
[ "$(grep -c ' f32 { m[ai][xn](' "$t/narrow.ir")" = 3 ] || fail "not three of floats: $(cat "$t/narrow.ir")"
grep -q ' f32 {.* ? ' "$t/narrow.ir" && fail "floats are moved: $(cat "$t/narrow.ir")"
"$py" - "$t" <<'PY'
import sys
import numpy as np
rng = np.random.default_rng(3)
t = sys.argv[1]
np.save(f"{t}/x.npy", np.concatenate([np.arange(768), rng.integers(0, 256, 768)]).astype(np.uint8).reshape(2, 3, 16, 16))
np.save(f"{t}/y.npy", np.arange(1024).astype(np.uint8).view(np.int8).reshape(2, 2, 16, 16))
f = (rng.standard_normal((2, 3, 16, 16)) * 2).astype(np.float32)
f[0, 0, 0, 3], f[1, 1, 2, 5], f[1, 1, 3, 5] = np.nan, np.inf, -np.inf
np.save(f"{t}/f.npy", f)
PY
args="--input x=$t/x.npy --input y=$t/y.npy --input f=$t/f.npy"
for target in native x86-64 c; do
	"$tcc" run "$t/bytes.ir" $args --target $target --output-dir "$t/with" >/dev/null || fail "$target: does not run"
	"$tcc" run "$t/bytes.ir" $args --target $target --disable-pass narrow --output-dir "$t/without" >/dev/null || fail "$target: does not run without"
	for i in 0 1 2 3 4 5 6 7; do
		cmp "$t/with/output_$i.npy" "$t/without/output_$i.npy" || fail "$target: output $i differs"
	done
done
"$tcc" verify "$t/bytes.ir" || fail "wrong"
