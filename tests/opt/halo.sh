#!/bin/sh
# What windows pad is stored with a halo that its kernel fills: no kernel copies, results are those of the
# evaluator whatever the memory held before, also where pads differ, and a part that cannot be is refused.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

rng = np.random.default_rng(7)
consts, nodes = [], []


def weight(*dims):
    consts.append(nh.from_array(rng.standard_normal(dims).astype(np.float32), f"w{len(consts)}"))
    return consts[-1].name


def node(op, *operands, **attrs):
    nodes.append(h.make_node(op, operands, [f"v{len(nodes)}"], **attrs))
    return nodes[-1].output[0]


# filled with 7 first, so that a halo that nobody fills is seen in what the arena reuses
x = node("Add", node("Sigmoid", node("Mul", "x", weight(1))), weight(1))
a = node("Conv", x, weight(20, 3, 1, 1))
b = node("Relu", node("Conv", node("Relu", a), weight(20, 20, 3, 3), pads=[1, 1, 1, 1]))
c = node("Conv", b, weight(20, 1, 5, 3), group=20, pads=[2, 1, 2, 1], dilations=[1, 1])
d = node("Conv", b, weight(20, 20, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2])
e = node("MaxPool", node("Add", c, d), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
f = node("Conv", node("Add", e, e), weight(9, 20, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
g = node("AveragePool", node("Relu", f), kernel_shape=[2, 2], pads=[1, 0, 0, 1])
graph = h.make_graph(nodes, "halo", [h.make_tensor_value_info("x", T.FLOAT, ["n", 3, "h", "w"])],
                     [h.make_tensor_value_info(g, T.FLOAT, None)], consts)
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/m.onnx")
PY
"$tcc" opt "$t/m.onnx" --stop-after layout -o "$t/m.ir" || fail "no dump"
[ "$(grep -c 'part = 1' "$t/m.ir")" -ge 5 ] || fail "paddings are copied: $(grep -c 'part = 1' "$t/m.ir") are not"
for shape in 1x3x8x8 2x3x19x23 1x3x5x1; do
	"$tcc" verify "$t/m.onnx" --shape "x=$shape" --rtol 1e-4 --atol 1e-5 || fail "$shape differs"
	"$tcc" verify "$t/m.onnx" --target x86-64-v2 --shape "x=$shape" --rtol 1e-4 --atol 1e-5 || fail "$shape differs on v2"
done
"$tcc" verify "$t/m.onnx" --rtol 1e-4 --atol 1e-5 || fail "symbolic sizes differ"
sed 's/halo = \[[0-9, ]*/&, 0/' "$t/m.ir" >"$t/bad.ir"
[ ! -f "$t/m.ir.data" ] || cp "$t/m.ir.data" "$t/bad.ir.data"
"$tcc" opt "$t/bad.ir" --passes=schedule -o "$t/x.ir" 2>"$t/err" && fail "a wrong halo is accepted"
grep -q "'halo' must" "$t/err" || fail "$(cat "$t/err")"
sed '0,/halo = \[0, 0, 0, 0, 1, 1, 1, 1\]/s//halo = [0, 0, 0, 0, 0, 0, 1, 1]/; s/halo = \[0, 0, 0, 0, 2/halo = [0, 0, 0, 0, 1/' "$t/m.ir" >"$t/bad.ir"
"$tcc" opt "$t/bad.ir" --passes=schedule -o "$t/x.ir" 2>"$t/err" && fail "a part outside the halo is accepted"
grep -q "'part' needs" "$t/err" || fail "$(cat "$t/err")"
