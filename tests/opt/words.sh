#!/bin/sh
# Chains of convolutions of bytes read their words from memory as it lies: channels that are no multiple of
# four, zero points in the padding, signed and unsigned bytes, others that read the same; no kernel packs.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

rng = np.random.default_rng(11)


def model(kind, wkind, path):
    consts, nodes = [], []
    info = np.iinfo(kind)

    def const(v):
        consts.append(nh.from_array(np.asarray(v), f"w{len(consts)}"))
        return consts[-1].name

    def node(op, *operands, **attrs):
        nodes.append(h.make_node(op, operands, [f"v{len(nodes)}"], **attrs))
        return nodes[-1].output[0]

    def scale(n=None):
        return const(np.float32(rng.uniform(0.01, 0.03, n)))

    def conv(x, sx, zx, m, c, k, zy, **attrs):
        w = const(rng.integers(np.iinfo(wkind).min, np.iinfo(wkind).max + 1, (m, c, k, k)).astype(wkind))
        sy = const(np.float32(0.02 * np.sqrt(c) * k))
        zw = const(np.full(m, 0 if wkind == np.int8 else 121, wkind))
        b = const(rng.integers(-500, 500, m).astype(np.int32))
        return node("QLinearConv", x, sx, zx, w, scale(m), zw, sy, zy, b, **attrs), sy

    z = [const(kind(info.min + v)) for v in (117, 3, 9)]
    s = scale()
    x = node("QuantizeLinear", "x", s, z[0])
    a, sa = conv(x, s, z[0], 6, 3, 3, z[1], pads=[1, 1, 1, 1])
    b, sb = conv(a, sa, z[1], 5, 6, 3, z[2], pads=[2, 0, 1, 1], strides=[2, 1])
    c, sc = conv(a, sa, z[1], 8, 6, 1, z[0])         # past the end are zeros, and not what pads b
    d, sd = conv(b, sb, z[2], 17, 5, 3, z[0], pads=[1, 1, 1, 1])
    e, se = conv(c, sc, z[0], 7, 8, 3, z[2], pads=[1, 1, 1, 1])
    ys = [node("DequantizeLinear", d, sd, z[0]), node("DequantizeLinear", e, se, z[2]),
          node("Relu", node("DequantizeLinear", a, sa, z[1]))]
    graph = h.make_graph(nodes, "words", [h.make_tensor_value_info("x", T.FLOAT, ["n", 3, "h", "w"])],
                         [h.make_tensor_value_info(y, T.FLOAT, None) for y in ys], consts)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


for kind in np.uint8, np.int8:
    for wkind in np.uint8, np.int8:
        model(kind, wkind, f"{sys.argv[1]}/{kind.__name__}_{wkind.__name__}.onnx")
PY
for m in uint8_int8 uint8_uint8 int8_int8 int8_uint8; do
	"$tcc" opt "$t/$m.onnx" --stop-after layout --target icelake-server -o "$t/$m.ir" || fail "$m: no dump"
	# all but those of a that end with zeros, where its other reader pads it with the zero point in the same memory
	[ "$(grep -c 'i32 with.*part = 1' "$t/$m.ir")" -ge 4 ] || fail "$m: words are packed"
	[ "$(grep -c 'part = 1' "$t/$m.ir")" -ge 7 ] || fail "$m: only $(grep -c 'part = 1' "$t/$m.ir") parts"
	for shape in 1x3x8x8 2x3x7x19; do
		"$tcc" verify "$t/$m.onnx" --shape "x=$shape" || fail "$m $shape differs"
	done
	"$tcc" verify "$t/$m.onnx" || fail "$m: symbolic sizes differ"
	[ $m != int8_uint8 ] || "$tcc" verify "$t/$m.ir" --target c || fail "$m: in C differs"
done
