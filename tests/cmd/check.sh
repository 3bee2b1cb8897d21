# check reports every problem of a model at once, with the node, and so does each other command.
. tests/cmd/lib
[ -x "$py" ] || { echo "no $py"; exit 77; }
"$py" - "$t" <<'PY'
import sys, onnx
from onnx import helper as h, TensorProto as T
nodes = [h.make_node("Frobnicate", ["x"], ["a"], name="first"),
         h.make_node("Zorp", ["x"], ["b"], name="second"),
         h.make_node("MatMul", ["x", "x"], ["y"], name="third")]
g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [2, 3])],
                 [h.make_tensor_value_info(o, T.FLOAT, None) for o in "aby"])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/bad.onnx")
PY
for c in check compile inspect; do
	expect 3 "Frobnicate 'first'" "$tcc" $c "$t/bad.onnx"
	grep -q "Zorp 'second'" "$t/out" || fail "$c does not name the second"
	grep -q "MatMul 'third' (node 2): " "$t/out" || fail "$c does not name the third"
done
expect 0 'no problems found for sm_80' "$tcc" check "$digits" --target native --target sm_80 --target gfx942
expect 3 'error' "$tcc" check "$t/bad.onnx" --color always
grep -q "$(printf '\033')" "$t/out" || fail "no colour"
