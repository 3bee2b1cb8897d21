"""Equal rows, columns, channels and positions give equal bits: the full vectors of a kernel and their tail, the
blocks of a tile and its edge, and threads sum in one order. usage: rows.py TCC FOLDER [OPTION...]"""
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

tcc, folder, options = sys.argv[1], sys.argv[2], sys.argv[3:]
rng = np.random.default_rng(3)
nodes, inputs, outputs = [], {}, []              # outputs: name, axes along which all is equal


def f(*s):
    return rng.standard_normal(s).astype(np.float32)


def same(shape, *varies):
    """Random along the axes `varies`, the same along the others."""
    return np.broadcast_to(f(*[n if i in varies else 1 for i, n in enumerate(shape)]), shape).copy()


def case(op, ins, axes, **attrs):
    n = len(outputs)
    names = []
    for k, a in enumerate(ins):
        names.append(f"i{n}_{k}" if isinstance(a, np.ndarray) else a)
        if isinstance(a, np.ndarray):
            inputs[names[-1]] = a
    nodes.append(helper.make_node(op, names, [f"y{n}"], name=f"{op}_{n}", **attrs))
    outputs.append((f"y{n}", axes))
    return f"y{n}"


for M, K, N in ((1, 37, 33), (2, 64, 17), (5, 300, 7), (13, 200, 125 + 3), (16, 511, 31), (33, 77, 19), (64, 129, 49)):
    case("MatMul", [same((M, K), 1), same((K, N), 0)], (0, 1))
    case("MatMul", [same((3, M, K), 2), same((3, K, N), 1)], (0, 1, 2))
    for op in ("ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp"):
        case(op, [same((M, K), 1), np.array([1])], (0,), keepdims=0)
        case(op, [same((K, M), 0), np.array([0])], (0,), keepdims=0)
    case("Softmax", [same((M, K), 1)], (0,))
    case("Softmax", [same((K, M), 0)], (1,), axis=0)
    case("LayerNormalization", [same((M, K), 1), f(K)], (0,))
    case("CumSum", [same((M, K), 1), np.array(1)], (0,))
for C, O, H in ((3, 33, 7), (16, 17, 15), (64, 65, 5), (8, 70, 33)):
    for k in (1, 3):
        case("Conv", [same((2, C, H + 2, H), 1), same((O, C, k, k), 1, 2, 3)], (0, 1, 2, 3))
    case("Conv", [same((2, C, H + 2, H)), same((C, 1, 3, 3), 2, 3)], (0, 1, 2, 3), group=C)
    case("AveragePool", [same((2, C, H + 2, H), 2)], (0, 1, 3), kernel_shape=[3, 3])
    case("GlobalAveragePool", [same((2, C, H + 2, H), 2, 3)], (0, 1))
    case("InstanceNormalization", [same((2, C, H + 2, H), 2, 3), np.ones(C, np.float32), f(C) * 0], (0, 1))
for B, S, D in ((3, 7, 16), (2, 33, 24), (1, 65, 64)):
    shape = (B, 2, S, D)
    p = case("MatMul", [same(shape, 3), same((B, 2, D, S), 2, 3)], (0, 1, 2))
    case("MatMul", [case("Softmax", [p], (0, 1, 2)), same(shape, 2, 3)], (0, 1, 2))

g = helper.make_graph(
    nodes, "rows", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                    for n, a in inputs.items() if a.dtype == np.float32],
    [onnx.ValueInfoProto(name=n) for n, _ in outputs],
    [numpy_helper.from_array(a, n) for n, a in inputs.items() if a.dtype != np.float32])
onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), f"{folder}/rows.onnx")
args = [tcc, "run", f"{folder}/rows.onnx", "--output-dir", folder, *options]
for n, a in inputs.items():
    if a.dtype == np.float32:
        np.save(f"{folder}/{n}.npy", a)
        args += ["--input", f"{n}={folder}/{n}.npy"]
subprocess.run(args, check=True)
bad = 0
for i, (name, axes) in enumerate(outputs):
    y = np.load(f"{folder}/output_{i}.npy").view(np.uint32)
    for axis in axes:
        differ = (y != y.take([0], axis)).any(axis=tuple(k for k in range(y.ndim) if k != axis))
        if differ.any():
            bad += 1
            print(f"{nodes[i].name} {list(y.shape)}: along axis {axis} bits differ at {np.nonzero(differ)[0].tolist()[:20]}")
            break
print(f"{len(outputs) - bad} passed, {bad} failed, 0 skipped")
sys.exit(bad > 0)
