#!/bin/sh
# Products of a row count that is not known have a lower tile too, for counts that the high one wastes half
# on; a row's bits do not depend on how many rows there are.
. tests/cmd/lib
cat >"$t/heights.ir" <<'IR'
module "heights" tensor

sym n : 0..2147483647 = dim(%x, 0), dim(%b, 0)
func main(%x: f32[n, 40], %b: u8[n, 40]) {
	%0 = tensor (k: 40, j: 72) f32 { f32((k * 7 + j * 5) % 23 - 11) * 0.37 }
	%1 = tensor (i: n, j: 72) f32 { max(sum(k: 40) { %x[i, k] * %0[k, j] } + 0.25, -1.0) }
	%2 = tensor (k: 40, j: 72) i8 { i8(k * 7 + j * 5) }
	%3 = tensor (i: n, j: 72) i32 { sum(k: 40) { i32(%b[i, k]) * i32(%2[k, j]) } }
	return "y" = %1, "z" = %3
}
IR
"$tcc" verify "$t/heights.ir" || fail "wrong"
"$tcc" compile "$t/heights.ir" --target x86-64-v4 --emit ir -o "$t/loops.ir" || fail "no loops"
grep -q 'reg \[14, ' "$t/loops.ir" && grep -q 'reg \[9, ' "$t/loops.ir" ||
	fail "no tiles of both heights: $(grep -o 'reg \[[0-9, ]*\]' "$t/loops.ir" | sort | uniq -c)"
"$py" - "$t" <<'PY'
import sys, numpy as np
rng = np.random.default_rng(7)
np.save(f"{sys.argv[1]}/x.npy", rng.standard_normal((45, 40)).astype(np.float32))
np.save(f"{sys.argv[1]}/b.npy", rng.integers(0, 256, (45, 40)).astype(np.uint8))
for n in range(46):
    for f in "xb":
        np.save(f"{sys.argv[1]}/{f}{n}.npy", np.load(f"{sys.argv[1]}/{f}.npy")[:n])
PY
for target in native x86-64; do
	"$tcc" compile "$t/heights.ir" --target $target -o "$t/heights" || fail "$target: does not compile"
	for n in $(seq 0 45); do
		"$t/heights" --input "x=$t/x$n.npy" --input "b=$t/b$n.npy" --output-dir "$t/out$n" >"$t/log" || fail "$target: $n rows: $(cat "$t/log")"
	done
	"$py" -c '
import sys, numpy as np
for k in 0, 1:
    y = np.load(f"{sys.argv[1]}/out45/output_{k}.npy")
    for n in range(46):
        np.testing.assert_array_equal(np.load(f"{sys.argv[1]}/out{n}/output_{k}.npy"), y[:n], str(n))
np.testing.assert_array_equal(y.astype(np.int32), y)' "$t" || fail "$target: bits differ"
done
