"""Models of the operators that library.ops declares, with numpy's results. usage: library.py OUT"""
import os
import sys

import numpy as np
import onnx
from onnx import helper as h, numpy_helper

out = sys.argv[-1]
rng = np.random.RandomState(0)


def save(where, kind, values):
    for i, a in enumerate(values):
        with open(f"{where}/{kind}_{i}.pb", "wb") as file:
            file.write(numpy_helper.from_array(np.asarray(a), "x").SerializeToString())


def case(name, op, ins, y, dims=None, **attrs):
    names = [f"x{i}" for i in range(len(ins))]
    infos = [h.make_tensor_value_info(n, numpy_helper.from_array(a).data_type, dims[i] if dims else a.shape)
             for i, (n, a) in enumerate(zip(names, ins))]
    result = h.make_tensor_value_info("y", numpy_helper.from_array(y).data_type, None)
    g = h.make_graph([h.make_node(op, names, ["y"], domain="my.domain", **attrs)], "g", infos, [result])
    data = f"{out}/{name}/test_data_set_0"
    os.makedirs(data)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("my.domain", 1)], ir_version=10),
              f"{out}/{name}/model.onnx")
    save(data, "input", ins)
    save(data, "output", [y])


def soft(v, a=1):
    return v / (a + abs(v))


def rms(v, axis):
    return v / np.sqrt((v * v).mean(axis, keepdims=True))


x, b, w = [rng.randn(*s).astype(np.float32) for s in ((3, 8), (8,), (3,))]
case("soft", "Softer", [x], soft(x, 2), alpha=2.)
case("soft_sum", "Softer", [x, b], soft(x + b))
case("soft_half", "Softer", [x.astype(np.float16)], soft(x.astype(np.float16)))
case("rms", "Rms", [x], rms(x, -1))
case("soft_rms", "SoftRms", [x], soft(rms(x, 0), np.float32(.5)), dims=[["N", 8]])
for s in (1, 2):
    y = np.stack([(x[:, j:j + 3] * w).sum(1) for j in range(0, 6, s)], 1) * np.float32(.5)
    case(f"blur_{s}", "Blur", [x, w], y, step=s)
    case(f"blur_dim_{s}", "Blur", [x, w], y, dims=[["N", "M"], ["K"]], step=s)
case("shift", "Shift", [b, np.array([2])], np.concatenate([[0, 0], b[:-2]]).astype(np.float32))
case("wild", "Wild", [b, np.array([7, 0, 3])], b[[7, 0, 3]])
np.save(f"{out}/wild/b.npy", b)
np.save(f"{out}/wild/outside.npy", np.array([1, 99, 2]))
