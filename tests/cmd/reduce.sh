# reduce finds the part of a model that fails, and the pass that breaks it; what it writes fails alone.
. tests/cmd/lib
expect 0 'does not fail' "$tcc" reduce "$digits" -o "$t/red"
[ ! -e "$t/red" ] || fail "a folder was made for nothing"

# rounded operands: any product with weights fails alone
expect 1 "^1 of .* nodes are left" "$tcc" reduce "$digits" --target c --precision bf16 --rtol 1e-5 --atol 1e-9 -o "$t/red"
grep -q "pass 'precision' changes output 'out'" "$t/out" || fail "the pass is not named"
grep -q 'conv %in_0' "$t/red/model.ir" || fail "another node than the first is left"
expect 1 'FAIL model.ir' "$tcc" verify "$t/red/model.ir" --data "$t/red" --rtol 1e-5 --atol 1e-9
expect 0 'PASS model.ir' "$tcc" verify "$t/red/model.ir" --data "$t/red" --rtol 1e-1 --atol 1e-2

# an error that no node alone makes, but several do: nodes stay that are needed for it
"$py" - "$t" <<'PY'
import sys, numpy as np, onnx
from onnx import helper as h, numpy_helper, TensorProto as T
rng = np.random.default_rng(0)
w = [numpy_helper.from_array((rng.standard_normal((16, 16)) / 4).astype("f"), f"w{i}") for i in range(10)]
nodes = [h.make_node("MatMul", [f"t{i}" if i else "x", f"w{i}"], [f"t{i + 1}"]) for i in range(10)]
io = lambda n: h.make_tensor_value_info(n, T.FLOAT, ["n", 16])
g = h.make_graph(nodes, "g", [io("x")], [io("t10")], w)
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/chain.onnx")
PY
expect 1 "^[2-9] of 10 nodes are left" "$tcc" reduce "$t/chain.onnx" --target c --precision bf16 --rtol 1e-2 --atol 1e-2 \
	-o "$t/red2"
expect 1 'FAIL model.ir' "$tcc" verify "$t/red2/model.ir" --data "$t/red2" --rtol 1e-2 --atol 1e-2
"$tcc" compile "$digits" --emit ir -o "$t/loop.ir"
expect 2 'graph level' "$tcc" reduce "$t/loop.ir"
