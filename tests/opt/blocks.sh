#!/bin/sh
# Weights of few bits with a scale for each block: the product sums bytes within blocks, and no kernel spells
# the weights out. Odd sizes, blocks that go past the end, zero points, columns that fill no vector.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

rng = np.random.default_rng(1)


def model(path, K, N, block, accuracy, bits, zeros):
    blocks = (K + block - 1) // block
    consts = {"w": rng.integers(0, 256, (N, blocks, block * bits // 8)).astype(np.uint8),
              "s": rng.uniform(.01, .03, N * blocks).astype(np.float32)}
    if zeros:
        consts["z"] = rng.integers(0, 256, N * ((blocks * bits + 7) // 8)).astype(np.uint8)
    nodes = [h.make_node("MatMulNBits", ["x", *consts], ["p"], domain="com.microsoft", K=K, N=N, bits=bits,
                         block_size=block, accuracy_level=accuracy), h.make_node("Relu", ["p"], ["y"])]
    graph = h.make_graph(nodes, "blocks", [h.make_tensor_value_info("x", T.FLOAT, ["b", "t", K])],
                         [h.make_tensor_value_info("y", T.FLOAT, None)],
                         [nh.from_array(v, k) for k, v in consts.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)],
                           ir_version=8), path)


cases = [(96, 50, 32, 4, 4), (70, 33, 16, 4, 4), (256, 16, 128, 4, 4), (64, 47, 32, 4, 8), (96, 50, 32, 0, 4),
         (64, 17, 32, 4, 2)]
for i, case in enumerate(cases):
    for zeros in False, True:
        model(f"{sys.argv[1]}/m{i}{'z' if zeros else ''}.onnx", *case, zeros)
PY
for m in "$t"/m*.onnx; do
	case $m in */m[0-3]*)
		"$tcc" opt "$m" --stop-after layout --target icelake-server -o "$m.ir" || fail "$m: no dump"
		grep -q 'sum(.*f32(.*sum(.*dot4(' "$m.ir" || fail "$m: not a sum of sums of bytes"
		"$tcc" inspect "$m" --target icelake-server | grep -q 'class=contract' || fail "$m: no register tiles"
		case $m in */m1*)
			"$tcc" verify "$m.ir" --target c --rtol 1e-5 --atol 1e-5 || fail "$m: in C differs"
			;;
		esac
		;;
	*/m4*)
		"$tcc" inspect "$m" | grep -q 'class=contract' || fail "$m: no register tiles"
		"$tcc" opt "$m" --stop-after layout | grep -q 'const u8.50, 3, 16. with {block' || fail "$m: weights are spelled out"
		;;
	esac
	"$tcc" verify "$m" --rtol 1e-5 --atol 1e-5 || fail "$m: symbolic sizes differ"
	for shape in 1x1 2x13; do
		"$tcc" verify "$m" --dim "b=${shape%x*}" --dim "t=${shape#*x}" --rtol 1e-5 --atol 1e-5 || fail "$m: $shape differs"
	done
done
