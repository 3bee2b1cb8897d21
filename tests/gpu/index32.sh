# GPU kernels with symbolic sizes index in 32 bits and larger tensors are refused, unless the bounds
# that the user gives allow them.
. tests/cmd/lib
[ -x "$py" ] || { echo "no $py: run make check"; exit 77; }
"$py" - "$t" <<'EOF'
import sys
import numpy as np, onnx
from onnx import helper as h, TensorProto as P
t = sys.argv[1]
graph = h.make_graph([h.make_node("Relu", ["x"], ["r"]), h.make_node("Expand", ["r", "s"], ["y"])], "g",
    [h.make_tensor_value_info("x", P.FLOAT, ["n", 1]), h.make_tensor_value_info("s", P.INT64, [2])],
    [h.make_tensor_value_info("y", P.FLOAT, None)])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), t + "/m.onnx")
np.save(t + "/x.npy", np.arange(-1, 2, dtype=np.float32).reshape(3, 1))
np.save(t + "/small.npy", np.array([3, 2], np.int64))
np.save(t + "/large.npy", np.array([3, 1 << 30], np.int64))
EOF
run() { echo "$tcc run $t/m.onnx --target sm_80 --simulate --input x=$t/x.npy --output-dir $t"; }
expect 0 '' $(run) --input s="$t/small.npy"
"$py" -c "import numpy as np, sys; assert (np.load(sys.argv[1]) == [[0, 0], [0, 0], [1, 1]]).all()" "$t/output_0.npy"
expect 6 'a tensor of 3221225472 elements' $(run) --input s="$t/large.npy"
expect 0 '' "$tcc" compile "$t/m.onnx" --target sm_80 --emit ir --stage loop -o "$t/m.ir"
[ "$(grep -c '^kernel' "$t/m.ir")" = "$(grep -c index32 "$t/m.ir")" ] || fail "a kernel indexes in 64 bits"
expect 0 '' "$tcc" compile "$digits" --target sm_80 --dim batch=1..100000000 --emit ir --stage loop -o "$t/m.ir"
[ "$(grep -c '^kernel' "$t/m.ir")" -gt "$(grep -c index32 "$t/m.ir")" ] || fail "every kernel indexes in 32 bits"
expect 0 '' "$tcc" run "$t/m.ir" --simulate --input picture="$picture"
