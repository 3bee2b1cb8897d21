#!/bin/sh
# A convolution with equal weights sums its windows once for all channels, not once for each; results stay.
. tests/cmd/lib
"$py" - "$t/m.onnx" <<'PY' || exit 1
import sys
from onnx import helper as h, TensorProto as T, save
nodes = [h.make_node("ConstantOfShape", ["s"], ["w"], value=h.make_tensor("v", T.FLOAT, [1], [0.25])),
         h.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
         h.make_node("Add", ["c", "b"], ["y"])]
consts = [h.make_tensor("s", T.INT64, [4], [6, 5, 3, 3]),
          h.make_tensor("b", T.FLOAT, [6, 1, 1], [1, 2, 3, 4, 5, 6])]
save(h.make_model(h.make_graph(nodes, "hoist", [h.make_tensor_value_info("x", T.FLOAT, ["n", 5, 9, 7])],
                               [h.make_tensor_value_info("y", T.FLOAT, None)], consts),
                  opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1])
PY
"$tcc" opt "$t/m.onnx" --stop-after hoist -o "$t/m.ir" || fail "no dump"
grep 'sum(' "$t/m.ir" | grep -q ': 6' && fail "summed for each channel: $(grep 'sum(' "$t/m.ir")"
"$tcc" verify "$t/m.onnx" --rtol 1e-5 --atol 1e-5 || fail "differs"
