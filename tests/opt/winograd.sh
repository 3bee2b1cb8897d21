#!/bin/sh
# Convolutions of stride 1 with fewer products agree with the evaluator: sizes that fill no tile, columns that fill
# no vector, filters of 3 and 5 taps, symbolic sizes, residuals; the ledger lists each with its error, --strict has
# none, and neither has a layer whose weights take them out of bounds.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

rng = np.random.default_rng(2)


def layers(name, x, channels, taps=3, pads=None, scale=None):
    """Convolutions one after the other, the last with a residual where channels allow."""
    nodes, inits, at = [], [], "x"
    for i, k in enumerate(channels):
        c = ([x[1]] + channels)[i]
        w = rng.standard_normal((k, c, taps, taps)).astype(np.float32) / taps / c ** 0.5
        if scale is not None:
            w = scale(w)
        inits += [nh.from_array(w, f"w{i}"), nh.from_array(rng.standard_normal(k).astype(np.float32), f"b{i}")]
        nodes.append(h.make_node("Conv", [at, f"w{i}", f"b{i}"], [f"c{i}"],
                                 pads=[taps // 2] * 4 if pads is None else pads))
        nodes.append(h.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        at = f"r{i}"
    if len(channels) > 1 and channels[-1] == channels[-2]:
        nodes.append(h.make_node("Add", [at, f"r{len(channels) - 2}"], ["sum"]))
        at = "sum"
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.FLOAT, x)],
                         [h.make_tensor_value_info(at, T.FLOAT, None)], inits)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{sys.argv[1]}/{name}.onnx")


layers("small", [1, 64, 7, 7], [64])
layers("tails", [2, 36, 9, 14], [72, 72])
layers("five", [1, 64, 8, 10], [64], 5)
layers("cut", [1, 64, 8, 11], [64], pads=[0, 1, 2, 0])
layers("symbols", ["n", 64, "h", "w"], [72, 72])
# transformed, these weights are infinite
layers("large", [1, 64, 30, 30], [64], scale=lambda w: w * np.float32(3e38 / abs(w).max()))
PY
dump() {
	model=$1
	shift
	"$tcc" compile "$t/$model.onnx" --emit ir --stage loop -o "$t/$model.ir" "$@" || fail "no dump of $model"
}
for case in native:small native:tails native:five x86-64-v3:cut x86-64-v3:tails c:tails; do
	"$tcc" verify "$t/${case#*:}.onnx" --rtol 1e-5 --atol 3e-5 --target "${case%:*}" || fail "$case differs"
done
for m in tails five symbols; do
	dump $m --target x86-64-v3
	grep -q 'class=transformed' "$t/$m.ir" || fail "$m is made with all its products"
	grep -q '^ledger "winograd_[24]x[24]" "real" [0-9.]*e-0[67] ' "$t/$m.ir" || fail "the ledger has no error of $m"
	dump $m --target x86-64-v3 --strict
	! grep -q 'winograd\|class=transform' "$t/$m.ir" || fail "--strict has fewer products in $m"
done
dump symbols --target x86-64-v3                # windows reach into halos: only the input is copied
[ "$(grep -c '^kernel' "$t/symbols.ir")" -eq 5 ] || fail "$(grep -c '^kernel' "$t/symbols.ir") kernels, not 5"
dump large --target x86-64-v3
! grep -q winograd "$t/large.ir" || fail "a layer beyond the error bound is rewritten"
for shape in 1x64x1x1 1x64x5x2 3x64x6x7; do   # fewer rows than a tile has, and more
	"$tcc" verify "$t/symbols.onnx" --dim n=1..4 --dim h=1..40 --dim w=1..40 --shape x=$shape --rtol 1e-5 --atol 3e-5 ||
		fail "symbols of $shape differ"
done
"$tcc" compile "$t/tails.onnx" --target x86-64-v3 --emit ir --stage tensor -o "$t/tails.ir" || fail "no dump"
"$tcc" bench "$t/tails.ir" --iters 1 >"$t/run.log" 2>&1 || fail "the dump does not run: $(cat "$t/run.log")"
