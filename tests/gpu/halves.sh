#!/bin/sh
# Sums, differences and products of f16 by the machine's own instructions: numpy's bits, on the source and on
# the PTX that the compiler makes of it.
. tests/cmd/lib
[ -x "$py" ] || { echo "no $py: run make check"; exit 77; }
"$py" - "$t" <<'END'
import sys
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as P
t = sys.argv[1]
rng = np.random.default_rng(0)
a, b = (np.ldexp(rng.standard_normal((60, 70)), rng.integers(-15, 9, (60, 70))).astype(np.float16) for _ in "ab")
a[0, :4] = np.float16([np.inf, -np.inf, 6e-8, -0.0])
tiny = np.float16(3e-5)
nodes = [h.make_node("Add", ["a", "b"], ["s"]), h.make_node("Sub", ["a", "b"], ["d"]), h.make_node("Mul", ["s", "d"], ["p"]),
         h.make_node("Mul", ["p", "tiny"], ["q"]), h.make_node("Concat", ["s", "d", "p", "q"], ["y"], axis=0)]
graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, P.FLOAT16, [60, 70]) for n in "ab"],
    [h.make_tensor_value_info("y", P.FLOAT16, None)], [nh.from_array(tiny, "tiny")])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), t + "/m.onnx")
np.save(t + "/a.npy", a), np.save(t + "/b.npy", b)
with np.errstate(all="ignore"):
    p = (a + b) * (a - b)
    np.save(t + "/want.npy", np.concatenate([a + b, a - b, p, p * tiny]))
END
ways="sm_80:--simulate gfx942:--simulate"
"$tcc" doctor | grep -q '^ok *nvrtc' && ways="$ways sm_80:--simulate=ptx"
for way in $ways; do
	expect 0 '' "$tcc" run "$t/m.onnx" --target ${way%%:*} ${way#*:} --input a="$t/a.npy" --input b="$t/b.npy" \
		--output-dir "$t"
	"$py" -c "import numpy as np, sys; a, b = map(np.load, sys.argv[1:]); sys.exit(not np.array_equal(a, b, equal_nan=True))" \
		"$t/output_0.npy" "$t/want.npy" || fail "$way: other bits"
done
"$tcc" compile "$t/m.onnx" --target sm_80 --emit src -o "$t/src" || fail "does not compile"
grep -q 'tcc_mul_f16(' "$t/src/kernels.cu" || fail "no products of halves"
