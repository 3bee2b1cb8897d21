"""Seeded random operators: the generator that ir/README.md states, written again in numpy, says what they
give; their means are what they should be. usage: draws.py OUT"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

out = sys.argv[-1]
u64 = np.uint64
SHAPE, N, SEED = [40, 50], 2000, 7.0


def scramble(x):
    x = (x ^ (x >> u64(30))) * u64(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> u64(27))) * u64(0x94d049bb133111eb)
    return x ^ (x >> u64(31))


def uniform(seed, n, bits):
    """n numbers in [0, 1) of so many bits"""
    return (scramble(np.arange(n, dtype=u64) * u64(0x9e3779b97f4a7c15) + seed) >> u64(64 - bits)) * 2.0 ** -bits


def first_seed(v):
    return scramble(np.array(np.float64(v)).view(u64)[()] + u64(1))


def case(name, op, ins, y, **attrs):
    names = [f"x{i}" for i in range(len(ins))]
    infos = [h.make_tensor_value_info(n, numpy_helper.from_array(a).data_type, a.shape) for n, a in zip(names, ins)]
    result = h.make_tensor_value_info("y", numpy_helper.from_array(y).data_type, None)
    g = h.make_graph([h.make_node(op, names, ["y"], seed=SEED, **attrs)], "g", infos, [result])
    data = f"{out}/{name}/test_data_set_0"
    os.makedirs(data)
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 21)], ir_version=10), f"{out}/{name}/model.onnx")
    for kind, values in (("input", ins), ("output", [y])):
        for i, a in enumerate(values):
            with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                file.write(numpy_helper.from_array(a, "x").SerializeToString())


with np.errstate(over="ignore"):
    s = first_seed(SEED)
    for t, bits in ((np.float32, 24), (np.float64, 53)):
        code, n = h.np_dtype_to_tensor_dtype(np.dtype(t)), np.dtype(t).name
        u = uniform(s, N, bits).astype(t).reshape(SHAPE)
        assert abs(u.mean() - .5) < .03 and abs(u.var() - 1 / 12) < .01
        case("uniform_" + n, "RandomUniform", [], u * t(3) + t(-1), shape=SHAPE, dtype=code, low=-1., high=2.)
        case("uniform_like_" + n, "RandomUniformLike", [u], u)
        v = uniform(scramble(s), N, bits).astype(t).reshape(SHAPE)
        z = np.sqrt(np.log(t(1) - u) * t(-2)) * np.cos(v * t(2 * np.pi))
        assert abs(z.mean()) < .07 and abs(z.std() - 1) < .05
        case("normal_" + n, "RandomNormal", [], z * t(2) + t(.5), shape=SHAPE, dtype=code, mean=.5, scale=2.)
        case("normal_like_" + n, "RandomNormalLike", [u], z)
        p = np.linspace(0, 1, N).astype(t).reshape(SHAPE)
        case("bernoulli_" + n, "Bernoulli", [p], (u < p).astype(t))
    odds = np.log(np.array([[.1, .2, .3, .4], [.7, .1, .1, .1]], np.float32))
    w = uniform(s, 2 * 500, 53).reshape(2, 500)
    sums = np.exp(odds.astype(np.float64) - odds.max(1, keepdims=True)).cumsum(1)
    y = (sums[:, None] <= (w * sums[:, -1:])[..., None]).sum(2).astype(np.int32)
    assert np.all(abs(np.array([(y == k).mean(1) for k in range(4)]).T - np.exp(odds)) < .07)
    case("multinomial", "Multinomial", [odds], y, sample_size=500, dtype=T.INT32)
