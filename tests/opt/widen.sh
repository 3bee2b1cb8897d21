#!/bin/sh
# Halves that products read often lie in memory as f32: results are those of halves, bit for bit where sums are
# the same; what leaves the model, or nothing multiplies, stays a half; paddings stay views.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

rng = np.random.default_rng(6)


def save(name, nodes, x, weights, kind=T.FLOAT16, outputs=("y",)):
    inits = [nh.from_array((rng.standard_normal(d) / 3).astype(np.float16), n) for n, d in weights.items()]
    if kind == T.BFLOAT16:
        inits = [h.make_tensor(i.name, kind, i.dims, nh.to_array(i).astype(np.float32).ravel()) for i in inits]
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", kind, x)],
                         [h.make_tensor_value_info(o, kind, None) for o in outputs], inits)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 22)], ir_version=10), f"{sys.argv[1]}/{name}.onnx")


net = [h.make_node("Conv", ["x", "a"], ["p"], pads=[1, 1, 1, 1]), h.make_node("Relu", ["p"], ["q"]),
       h.make_node("Conv", ["q", "b"], ["r"], pads=[1, 1, 1, 1], strides=[2, 2]), h.make_node("Sigmoid", ["r"], ["s"]),
       h.make_node("Mul", ["r", "s"], ["u"]), h.make_node("Conv", ["u", "c"], ["v"]), h.make_node("Add", ["u", "v"], ["w"]),
       h.make_node("Conv", ["w", "d"], ["y"])]
shapes = {"a": (8, 3, 3, 3), "b": (16, 8, 3, 3), "c": (16, 16, 1, 1), "d": (2, 16, 1, 1)}
save("net", net, ["n", 3, "h", "w"], shapes)
save("brain", net, [2, 3, 9, 11], shapes, T.BFLOAT16)
save("seen", net, [1, 3, 10, 7], shapes, outputs=("y", "u"))     # a result is a half
save("matrix", [h.make_node("MatMul", ["x", "a"], ["p"]), h.make_node("Softmax", ["p"], ["q"]),
                h.make_node("Transpose", ["q"], ["r"], perm=[0, 2, 1]), h.make_node("MatMul", ["q", "r"], ["y"])],
     [2, 13, 20], {"a": (20, 20)})
PY
for target in native x86-64-v3 c; do
	"$tcc" verify "$t/net.onnx" --shape x=2x3x9x14 --target $target --rtol 2e-3 --atol 2e-3 || fail "net differs on $target"
	"$tcc" verify "$t/brain.onnx" --target $target --rtol 2e-2 --atol 2e-2 || fail "brain differs on $target"
	for m in seen matrix; do
		"$tcc" verify "$t/$m.onnx" --target $target --rtol 2e-3 --atol 2e-3 || fail "$m differs on $target"
	done
done
"$tcc" opt "$t/seen.onnx" --stop-after widen -o "$t/seen.ir" || fail "no dump"
[ "$(grep -c 'tensor .*) f32 {' "$t/seen.ir")" -ge 2 ] || fail "nothing is widened"
grep -q 'tensor .*) f16 {' "$t/seen.ir" || fail "results are widened"
"$tcc" verify "$t/seen.ir" --rtol 2e-3 --atol 2e-3 || fail "the dump differs"
