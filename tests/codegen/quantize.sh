#!/bin/sh
# Rounding to bytes and shorts around a zero point, in vectors and past their end: ties, what saturates,
# infinities, NaN, on every kind of machine that runs here.
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
np.save(f"{t}/x.npy", x)
wants = []
for z in 0, 128, -3, 0.5, 70000:
    for d in np.uint8, np.int8, np.uint16, np.int16:
        i = np.iinfo(d)
        y = np.trunc((np.rint(x) + np.float32(z)).astype(np.float64))
        wants.append(np.where(np.isnan(y), 0, np.clip(y, i.min, i.max)).astype(d))
for i, y in enumerate(wants):
    np.save(f"{t}/want_{i}.npy", y)
PY
for target in native x86-64 c; do
	"$tcc" run "$t/q.ir" --target $target --input "x=$t/x.npy" --output-dir "$t" >"$t/out" || fail "$target: $(cat "$t/out")"
	"$py" -c '
import sys, numpy as np
t = sys.argv[1]
for i in range(20):
    np.testing.assert_array_equal(np.load(f"{t}/output_{i}.npy"), np.load(f"{t}/want_{i}.npy"), str(i))' "$t" || fail "$target"
done
