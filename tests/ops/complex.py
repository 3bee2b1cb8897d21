"""Operators that move complex elements, with numpy's results. usage: complex.py OUT"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

out = sys.argv[-1]


def case(name, op, ins, y, inits=(), **attrs):
    """ins: arrays, inits: which of them are constants"""
    names = [f"x{i}" for i in range(len(ins))]
    protos = [numpy_helper.from_array(a, n) for a, n in zip(ins, names)]
    given = [i for i in range(len(ins)) if i not in inits]
    g = h.make_graph([h.make_node(op, names, ["y"], **attrs)], "g",
                     [h.make_tensor_value_info(names[i], protos[i].data_type, ins[i].shape) for i in given],
                     [h.make_tensor_value_info("y", numpy_helper.from_array(y).data_type, None)],
                     initializer=[protos[i] for i in inits])
    data = f"{out}/{name}/test_data_set_0"
    os.makedirs(data)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 21)], ir_version=10), f"{out}/{name}/model.onnx")
    for kind, values in (("input", [protos[i] for i in given]), ("output", [numpy_helper.from_array(np.ascontiguousarray(y), "y")])):
        for i, v in enumerate(values):
            with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                file.write(v.SerializeToString())


rng = np.random.RandomState(1)
for t in (np.complex64, np.complex128):
    n = np.dtype(t).name + "_"
    a, b = [(rng.randn(3, 4) + 1j * rng.randn(3, 4)).astype(t) for i in range(2)]
    c, i64 = rng.rand(3, 4) > .5, np.int64
    case(n + "transpose", "Transpose", [a], a.T)
    case(n + "where", "Where", [c, a, b], np.where(c, a, b))
    case(n + "where_constant", "Where", [c, a, b], np.where(c, a, b), inits=[2])
    case(n + "concat", "Concat", [a, b], np.concatenate([a, b], 1), axis=1)
    case(n + "concat_constant", "Concat", [a, b], np.concatenate([a, b]), inits=[0], axis=0)
    case(n + "pad", "Pad", [a, np.array([1, 0, 0, 2])], np.pad(a, ((1, 0), (0, 2))), inits=[1])
    case(n + "pad_value", "Pad", [a, np.array([1, 0, 0, 2]), b[0, 0].reshape(())],
         np.pad(a, ((1, 0), (0, 2)), constant_values=b[0, 0]), inits=[1, 2])
    case(n + "tril", "Trilu", [a], np.tril(a), upper=0)
    case(n + "gather", "Gather", [a, np.array([2, 0])], a[[2, 0]])
    case(n + "gather_constant", "Gather", [a, np.array(2)], a[2], inits=[0])
    case(n + "slice", "Slice", [a, np.array([1]), np.array([9])], a[1:], inits=[1, 2])
    s = a.copy()
    s[[2, 0]] = b[:2]
    case(n + "scatter", "ScatterND", [a, np.array([[2], [0]]), b[:2]], s)
    case(n + "expand", "Expand", [a[:, :1], np.array([2, 3, 4])], np.broadcast_to(a[:, :1], (2, 3, 4)), inits=[1])
    case(n + "onehot", "OneHot", [np.array([1, 0]), np.array(3), b[0, :2]],
         np.where(np.eye(3, dtype=bool)[[1, 0]], b[0, 1], b[0, 0]), inits=[1])
