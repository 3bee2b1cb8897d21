#!/bin/sh
# A normalisation of channels in groups that is spelled out with reshapes reads its operand as it lies, is written
# into what follows it, and leaves work for threads where the batch is one picture; results are the evaluator's.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

rng = np.random.default_rng(5)
consts = {"w0": (24, 3, 1, 1), "w1": (5, 24, 3, 3), "g": (24, 1, 1), "b": (24, 1, 1), "scale": (4,), "bias": (4,)}
inits = [nh.from_array(rng.standard_normal(d).astype(np.float32), n) for n, d in consts.items()]
inits.append(nh.from_array(np.array([0, 4, -1], np.int64), "groups"))
nodes = [
    h.make_node("Conv", ["x", "w0"], ["c"]),
    h.make_node("Reshape", ["c", "groups"], ["r"]),
    h.make_node("InstanceNormalization", ["r", "scale", "bias"], ["n"], epsilon=1e-6),
    h.make_node("Shape", ["c"], ["s"]),
    h.make_node("Reshape", ["n", "s"], ["q"]),
    h.make_node("Mul", ["q", "g"], ["m"]),
    h.make_node("Add", ["m", "b"], ["a"]),
    h.make_node("Sigmoid", ["a"], ["e"]),
    h.make_node("Mul", ["a", "e"], ["f"]),
    h.make_node("Conv", ["f", "w1"], ["y"], pads=[1, 1, 1, 1]),
]
graph = h.make_graph(nodes, "norm", [h.make_tensor_value_info("x", T.FLOAT, ["n", 3, "h", "w"])],
                     [h.make_tensor_value_info("y", T.FLOAT, None)], inits)
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/m.onnx")
PY
for shape in 1x3x9x7 2x3x16x5 1x3x1x1; do
	"$tcc" verify "$t/m.onnx" --shape "x=$shape" --rtol 1e-4 --atol 1e-5 || fail "$shape differs"
done
"$tcc" verify "$t/m.onnx" --rtol 1e-4 --atol 1e-5 || fail "symbolic sizes differ"
"$tcc" compile "$t/m.onnx" --emit ir --stage loop -o "$t/m.ir" || fail "no dump"
[ "$(grep -c '^kernel' "$t/m.ir")" -eq 5 ] || fail "$(grep -c '^kernel' "$t/m.ir") kernels, not 5: conv, mean, variance, rest, conv"
