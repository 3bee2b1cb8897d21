#!/bin/sh
# Scales of weights that stay narrow stand beside their sums, once; not near underflow; --strict keeps all as it is.
. tests/cmd/lib
"$py" - "$t/m.onnx" <<'PY' || exit 1
import sys
import numpy as np
from onnx import helper as h, numpy_helper as nh, TensorProto as T, save
rng = np.random.default_rng(5)
nodes, consts, results = [], [], []
for i, (k, n, kind) in enumerate([(70, 33, np.int8), (256, 48, np.uint8), (64, 64, np.float16)]):
    w = (rng.standard_normal((k, n)) * 40 + (100 if kind is np.uint8 else 0)).clip(-128 if kind is np.int8 else 0, 255)
    consts += [nh.from_array(w.astype(kind), f"w{i}"), nh.from_array(rng.uniform(.01, .1, (1, n)).astype(np.float32), f"s{i}")]
    nodes += [h.make_node("Cast", [f"w{i}"], [f"f{i}"], to=T.FLOAT), h.make_node("Mul", [f"f{i}", f"s{i}"], [f"d{i}"]),
              h.make_node("MatMul", [f"x{i}", f"d{i}"], [f"p{i}"]), h.make_node("Relu", [f"p{i}"], [f"y{i}"])]
    results.append((k, n))
consts.append(nh.from_array(np.float32([[1e-38]]), "tiny"))
nodes += [h.make_node("Mul", ["f2", "tiny"], ["dt"]), h.make_node("MatMul", ["x2", "dt"], ["yt"])]
save(h.make_model(h.make_graph(nodes, "scales",
    [h.make_tensor_value_info(f"x{i}", T.FLOAT, ["r", k]) for i, (k, n) in enumerate(results)],
    [h.make_tensor_value_info(f"y{i}", T.FLOAT, None) for i in (0, 1, 2, "t")], consts),
    opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1])
PY
"$tcc" compile "$t/m.onnx" --emit ir -o "$t/m.ir" || fail "no dump"
[ "$(grep '^ledger.*scaled_sum' "$t/m.ir" | sort -u | wc -l)" = 2 ] || fail "not two: $(grep '^ledger' "$t/m.ir")"
"$tcc" compile "$t/m.onnx" --strict --emit ir -o - | grep -q scaled_sum && fail "with --strict"
# queries and keys of f16 that are scaled before their product: the sum is, in one kernel; not by more than 1
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
from onnx import helper as h, numpy_helper as nh, TensorProto as T, save
for name, c in ("small", 0.3), ("large", 3.0):
    nodes = [h.make_node("Mul", ["a", "c"], ["sa"]), h.make_node("Mul", ["b", "c"], ["sb"]),
             h.make_node("MatMul", ["sa", "sb"], ["y"])]
    save(h.make_model(h.make_graph(nodes, "before", [h.make_tensor_value_info("a", T.FLOAT16, ["r", 40]),
        h.make_tensor_value_info("b", T.FLOAT16, [40, 24])], [h.make_tensor_value_info("y", T.FLOAT16, None)],
        [nh.from_array(np.float16(c), "c")]), opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{sys.argv[1]}/{name}.onnx")
PY
for f in small large; do
	"$tcc" compile "$t/$f.onnx" --target sm_80 --emit ir -o "$t/$f.ir" || fail "no dump"
	"$tcc" verify "$t/$f.onnx" --target native --rtol 4e-3 --atol 4e-3 || fail "$f differs"
done
grep -q '^ledger.*scaled_sum' "$t/small.ir" || fail "scaled before the product"
[ "$(grep -c '^kernel' "$t/small.ir")" = 1 ] || fail "kernels that scale"
grep -q '^ledger.*scaled_sum' "$t/large.ir" && fail "the sum could overflow"
for target in native x86-64-v2 c; do
	"$tcc" verify "$t/m.onnx" --target $target --rtol 1e-5 --atol 1e-5 || fail "$target differs"
done
