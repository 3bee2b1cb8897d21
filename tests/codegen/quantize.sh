#!/bin/sh
# Rounding to bytes and shorts around a zero point, in vectors and past their end: ties, what saturates,
# infinities, NaN, on every kind of machine that runs here. So quotients by a constant, without a division
# where the machine has multiply-adds.
. tests/cmd/lib
lines= results= n=0
for z in 0 128 -3 0.5 70000; do
	for d in u8 i8 u16 i16; do
		lines="$lines
	%$n = tensor (i: n) $d { $d(rint(%x[i]) + $z.0) }"
		results="$results${results:+, }\"o$n\" = %$n"
		n=$((n + 1))
	done
done
lines=$(echo "$lines" | sed 's/0\.5\.0/0.5/')
for s in 0.017 0.25 3.5 1e-42; do
	for z in 0 128 -3; do
		for d in u8 i8; do
			lines="$lines
	%$n = tensor (i: n) $d { $d(rint(%x[i] / $s) + $z.0) }"
			results="$results, \"o$n\" = %$n"
			n=$((n + 1))
		done
	done
done
for d in u8 i8 u16 i16; do
	lines="$lines
	%$n = tensor (i: n) i32 { i32($d(rint(%x[i] / 0.25) + 3.0)) - 3i32 }"
	results="$results, \"o$n\" = %$n"
	n=$((n + 1))
done
cat >"$t/q.ir" <<IR
module "q" tensor

sym n : 0..2147483647 = dim(%x, 0)
func main(%x: f32[n]) {$lines
	return $results
}
IR
"$py" - "$t" <<'PY'
import sys
import numpy as np
t = sys.argv[1]
x = np.concatenate([np.arange(-300, 300) / 2, [np.nan, np.inf, -np.inf, 3e9, -3e9, 1e38, -1e38, 65535.5, 32767.5, -32768.5,
                    -0.0, 8388609, -8388609, 69999.5, -70000]]).astype(np.float32)
steps = np.concatenate([np.float32(s) * (np.arange(-300, 300, dtype=np.float32) + np.float32(0.5)) for s in (0.017, 0.25, 3.5)])
for k in range(2):
    steps = np.concatenate([np.nextafter(steps, np.float32(-np.inf)), steps, np.nextafter(steps, np.float32(np.inf))])
x = np.concatenate([x, steps])
np.save(f"{t}/x.npy", x)
wants = []
for z in 0, 128, -3, 0.5, 70000:
    for d in np.uint8, np.int8, np.uint16, np.int16:
        i = np.iinfo(d)
        y = np.trunc((np.rint(x) + np.float32(z)).astype(np.float64))
        wants.append(np.where(np.isnan(y), 0, np.clip(y, i.min, i.max)).astype(d))
np.seterr(all="ignore")
for s in 0.017, 0.25, 3.5, 1e-42:
    for z in 0, 128, -3:
        for d in np.uint8, np.int8:
            i = np.iinfo(d)
            y = (np.rint(x / np.float32(s)) + np.float32(z)).astype(np.float64)
            wants.append(np.where(np.isnan(y), 0, np.clip(y, i.min, i.max)).astype(d))
for d in np.uint8, np.int8, np.uint16, np.int16:
    i = np.iinfo(d)
    y = (np.rint(x / np.float32(0.25)) + np.float32(3)).astype(np.float64)
    wants.append(np.where(np.isnan(y), 0, np.clip(y, i.min, i.max)).astype(np.int32) - 3)
for i, y in enumerate(wants):
    np.save(f"{t}/want_{i}.npy", y)
PY
for target in native x86-64 c; do
	"$tcc" run "$t/q.ir" --target $target --input "x=$t/x.npy" --output-dir "$t" >"$t/out" || fail "$target: $(cat "$t/out")"
	"$py" -c '
import sys, numpy as np
t = sys.argv[1]
for i in range(int(sys.argv[2])):
    np.testing.assert_array_equal(np.load(f"{t}/output_{i}.npy"), np.load(f"{t}/want_{i}.npy"), str(i))' "$t" $n || fail "$target"
done
sed 's/1e-42/1e-3/' "$t/q.ir" >"$t/fast.ir"
"$tcc" compile "$t/fast.ir" --target x86-64-v3 --emit asm -o "$t/fast.s" || fail "no code"
grep -q 'vdiv[ps]s' "$t/fast.s" && fail "quotients by constants are divided"
cat >"$t/wide.ir" <<'IR'
module "wide" tensor

func main(%x: f32[64]) {
	%0 = tensor (i: 64) f32 { f32(i32(i8(rint(%x[i] / 0.3) + 3.0)) - 3i32) }
	return "y" = %0
}
IR
"$tcc" compile "$t/wide.ir" --target x86-64-v3 --emit asm -o "$t/wide.s" || fail "no code"
grep -q 'vpsrad\|vpmovsx\|vpack' "$t/wide.s" && fail "a byte is made where its value goes on as 32 bits"
exit 0
