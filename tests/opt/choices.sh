#!/bin/sh
# What passes choose stands in the text, and what is edited there is done: without the choices the
# results are the same, and a choice that cannot be is refused by name.
. tests/cmd/lib
model=models/tongue.onnx
refused() {
	"$tcc" opt "$t/bad.ir" --passes=schedule -o "$t/x.ir" 2>"$t/err" && fail "$1: accepted"
	[ $? = 3 ] && grep -q "$1" "$t/err" || fail "$1: $(cat "$t/err")"
}

"$py" - "$t/text.npy" <<'PY' || exit 1
import sys, numpy
numpy.save(sys.argv[1], numpy.frombuffer(b"the choices of a pass", numpy.uint8).astype(numpy.int64)[None])
PY
"$tcc" opt "$model" --stop-after layout -o "$t/chosen.ir" || fail "no dump"
for a in kernel outer order block; do
	grep -q "with {[^}]*$a = " "$t/chosen.ir" || fail "no choice of $a"
done
sed 's/ with {[^}]*}//' "$t/chosen.ir" >"$t/plain.ir"
for f in chosen plain; do
	"$tcc" run "$t/$f.ir" --input "text=$t/text.npy" --output-dir "$t/$f" || fail "$f does not run"
	"$tcc" opt "$t/$f.ir" --passes=schedule -o "$t/$f.loop.ir" || fail "$f is not scheduled"
done
"$py" - "$t/chosen/output_0.npy" "$t/plain/output_0.npy" <<'PY' || fail "results differ"
import sys, numpy
a, b = map(numpy.load, sys.argv[1:])
numpy.testing.assert_allclose(a, b, 1e-4, 1e-5)
PY
[ "$(grep -c '^kernel' "$t/chosen.loop.ir")" -lt "$(grep -c '^kernel' "$t/plain.loop.ir")" ] ||
	fail "as many kernels without groups"

sed 's/outer = 3/outer = 4/' "$t/chosen.ir" >"$t/bad.ir" && refused "do not share 4 outer axes"
sed 's/order = \[[0-9]*/order = [9/' "$t/chosen.ir" >"$t/bad.ir" && refused "'order' must list"
sed 's/block = [0-9]*/block = 0/' "$t/chosen.ir" >"$t/bad.ir" && refused "stored in blocks"
