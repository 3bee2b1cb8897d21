#!/bin/sh
# Depthwise convolutions and poolings in tiles of a row agree with the evaluator: rows that fill no tile or are
# shorter than one, channels that fill no vector or come from two tensors, strides, dilation, symbolic sizes, a
# batch, what follows them.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

rng = np.random.default_rng(4)


def save(name, nodes, x, inits=()):
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.FLOAT, x)],
                         [h.make_tensor_value_info("y", T.FLOAT, None)],
                         [nh.from_array(a, n) for n, a in inits])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 19)], ir_version=8), f"{sys.argv[1]}/{name}.onnx")


def depthwise(name, x, taps, **attrs):
    """Between pointwise convolutions, which want channels side by side."""
    c = x[1]
    w = {"a": (c, c, 1, 1), "w": (c, 1, *taps), "b": (c,), "z": (5, c, 1, 1)}
    save(name, [h.make_node("Conv", ["x", "a"], ["p"]), h.make_node("Conv", ["p", "w", "b"], ["d"], group=c, **attrs),
                h.make_node("HardSwish", ["d"], ["s"]), h.make_node("Conv", ["s", "z"], ["y"])],
         x, [(n, rng.standard_normal(d).astype(np.float32)) for n, d in w.items()])


def pool(name, op, x, **attrs):
    w = {"a": (x[1], x[1], 1, 1), "z": (5, x[1], 1, 1)}
    save(name, [h.make_node("Conv", ["x", "a"], ["p"]), h.make_node(op, ["p"], ["q"], **attrs),
                h.make_node("Conv", ["q", "z"], ["y"])],
         x, [(n, rng.standard_normal(d).astype(np.float32)) for n, d in w.items()])


depthwise("plain", [2, 24, 9, 17], (3, 3), pads=[1, 1, 1, 1])
depthwise("strided", [1, 40, 12, 30], (5, 5), pads=[2, 2, 2, 2], strides=[2, 2])
depthwise("dilated", [1, 19, 11, 13], (3, 2), dilations=[2, 3])
depthwise("symbols", ["n", 16, "h", "w"], (3, 3), pads=[1, 1, 1, 1])
pool("most", "MaxPool", [1, 20, 9, 23], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 1])
pool("mean", "AveragePool", [1, 20, 8, 7], kernel_shape=[2, 3], pads=[0, 1, 1, 1])
filters = [h.make_node("ConstantOfShape", [f"shape{i}"], [f"w{i}"], value=nh.from_array(np.array([v], np.float32)))
           for i, v in enumerate((.25, -.5))]       # sums of equal weights are no products: the pooling alone asks for lanes
save("parts", [h.make_node("Conv", ["x", "a"], ["c"]), *filters, h.make_node("Conv", ["c", "w0"], ["p"]),
               h.make_node("Conv", ["c", "w1"], ["q"]), h.make_node("Concat", ["p", "q"], ["r"], axis=1),
               h.make_node("MaxPool", ["r"], ["s"], kernel_shape=[3, 3], strides=[2, 2]),
               h.make_node("GlobalAveragePool", ["s"], ["y"])], [1, 8, 13, 28],
     [("a", rng.standard_normal((6, 8, 1, 1)).astype(np.float32)), ("shape0", np.array([16, 6, 1, 1])),
      ("shape1", np.array([19, 6, 1, 1]))])
save("flat", [h.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3])], [1, 3, 12, 40])
PY
for m in plain strided dilated most mean parts flat symbols; do
	for target in native x86-64-v3 c; do
		"$tcc" verify "$t/$m.onnx" --rtol 1e-4 --atol 1e-4 --target $target || fail "$m differs on $target"
	done
	"$tcc" compile "$t/$m.onnx" --target x86-64-v3 --emit ir --stage loop -o "$t/$m.ir" || fail "no dump of $m"
	grep -q 'class=window' "$t/$m.ir" || fail "$m has no tile of places"
done
for shape in 1x16x1x1 1x16x2x5 3x16x4x19; do
	"$tcc" verify "$t/symbols.onnx" --dim n=1..4 --dim h=1..40 --dim w=1..40 --shape x=$shape --rtol 1e-4 --atol 1e-4 ||
		fail "symbols of $shape differ"
done
