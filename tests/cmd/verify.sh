# verify: data in folders and archives, the evaluator, verdicts and exit codes, isolation.
. tests/cmd/lib
[ -x "$py" ] || { echo "no $py"; exit 77; }
"$py" - "$t" <<'PY'
import sys, os, numpy as np, onnx, json
from onnx import helper as h, numpy_helper as n, TensorProto as T
t = sys.argv[1]
x = np.arange(6, dtype=np.float32).reshape(2, 3)

def case(name, model, ins, outs, **data):
    os.makedirs(f"{t}/{name}/test_data_set_0", exist_ok=True)
    onnx.save(model, f"{t}/{name}/model.onnx")
    for kind, values in (("input", ins), ("output", outs)):
        for i, v in enumerate(values):
            with open(f"{t}/{name}/test_data_set_0/{kind}_{i}.pb", "wb") as f:
                f.write(n.from_array(v).SerializeToString())
    if data:
        json.dump(data, open(f"{t}/{name}/data.json", "w"))

def model(op, **attrs):
    node = h.make_node(op, ["x"], ["y"], name="n", **attrs)
    g = h.make_graph([node], "g", [h.make_tensor_value_info("x", T.FLOAT, ["N", 3])],
                     [h.make_tensor_value_info("y", T.FLOAT, None)])
    return h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)

relu = model("Neg")
case("good", relu, [x], [-x])
case("wrong", relu, [x], [-x + 1])
case("loose", relu, [x], [-x + 1], rtol=0, atol=2)
case("shape", relu, [x], [-x[:1]])
case("unknown", model("Frobnicate"), [x], [x])
case("alone", relu, [x], [])
open(f"{t}/broken", "w").close()
os.makedirs(f"{t}/empty", exist_ok=True)
onnx.save(relu, f"{t}/neg.onnx")
np.savez(f"{t}/named.npz", x=x, y=-x)
np.savez(f"{t}/numbered.npz", in_0=x, out_0=-x)
np.savez_compressed(f"{t}/wrong.npz", x=x, y=x)

# kinds of values: an optional input left out, a default, strings, a sequence
clip = h.make_model(h.make_graph([h.make_node("Clip", ["x", "", "m"], ["y"])], "g",
    [h.make_tensor_value_info("x", T.FLOAT, [2, 3]), h.make_tensor_value_info("m", T.FLOAT, [])],
    [h.make_tensor_value_info("y", T.FLOAT, [2, 3])]), opset_imports=[h.make_opsetid("", 17)], ir_version=8)
case("clip", clip, [x, np.float32(3)], [np.minimum(x, 3)])
seq = h.make_model(h.make_graph([h.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[5, 7, 9])],
    "g", [h.make_tensor_value_info("x", T.FLOAT, [2, 3])],
    [h.make_value_info("y", h.make_sequence_type_proto(h.make_map_type_proto(T.INT64, h.make_tensor_type_proto(T.FLOAT, []))))]),
    opset_imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx.ml", 1)], ir_version=8)
case("maps", seq, [x], [])
case("othermaps", seq, [x], [])
for name, delta in (("maps", 0), ("othermaps", 1)):
    value = n.from_list([dict(zip((5, 7, 9), (row + np.float32(delta)).astype(np.float32))) for row in x])
    with open(f"{t}/{name}/test_data_set_0/output_0.pb", "wb") as f:
        f.write(value.SerializeToString())
texts = h.make_model(h.make_graph([h.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml",
    keys_strings=["a", "b"], values_int64s=[1, 2], default_int64=-1)], "g",
    [h.make_tensor_value_info("x", T.STRING, ["N"])], [h.make_tensor_value_info("y", T.INT64, None)]),
    opset_imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx.ml", 2)], ir_version=8)
case("strings", texts, [np.array(["b", "c", "a"], dtype=object)], [np.array([2, -1, 1])])
PY
expect 0 '^PASS good$' "$tcc" verify "$t/good"
expect 1 "^FAIL wrong: output 'y': .* differ" "$tcc" verify "$t/wrong"
expect 0 '^PASS loose' "$tcc" verify "$t/loose"
expect 1 'FAIL loose' "$tcc" verify "$t/loose" --atol 0.5
expect 1 "FAIL shape: output 'y': shape" "$tcc" verify "$t/shape/"
expect 4 "^UNSUPPORTED unknown: .*Frobnicate" "$tcc" verify "$t/unknown"
expect 3 '^ERROR broken' "$tcc" verify "$t/broken"
expect 3 '^ERROR empty: .*No such file' "$tcc" verify "$t/empty"
expect 0 '^PASS alone' "$tcc" verify "$t/alone"         # by the evaluator
mkdir -p "$t/bare" && cp "$t/neg.onnx" "$t/bare/model.onnx"
expect 0 '^SKIP bare: .*has no test_data_set_0' "$tcc" verify "$t/bare"
expect 0 'PASS clip' "$tcc" verify "$t/clip"
expect 0 'PASS maps' "$tcc" verify "$t/maps"
expect 1 "FAIL othermaps: output 'y': item 0: " "$tcc" verify "$t/othermaps"
expect 0 'PASS strings' "$tcc" verify "$t/strings"
expect 1 '^4 passed, 3 failed, 1 skipped$' "$tcc" verify -j 2 "$t/good" "$t/wrong" "$t/loose" \
	"$t/unknown" "$t/alone" "$t/bare" "$t/empty" "$t/clip"
[ "$(sed -n 's/^[A-Z]* \([a-z]*\).*/\1/p' "$t/out" | tr '\n' ' ')" = \
	"good wrong loose unknown alone bare empty clip " ] || fail "not in order: $(cat "$t/out")"
expect 0 'PASS neg.onnx' "$tcc" verify "$t/neg.onnx" --data "$t/named.npz" --data "$t/numbered.npz"
expect 0 'PASS neg.onnx' "$tcc" verify "$t/neg.onnx" --data "$t/good"
expect 1 'FAIL neg.onnx' "$tcc" verify "$t/neg.onnx" --data "$t/wrong.npz"
expect 3 'ERROR neg.onnx' "$tcc" verify "$t/neg.onnx" --data "$t/none.npz"
expect 0 'PASS neg.onnx' "$tcc" verify "$t/neg.onnx" --seed 7 --max-ulp 0
expect 0 'PASS tongue.onnx' "$tcc" verify models/tongue.onnx models/forest.onnx models/mlp.onnx
