"""Counts the kernels of well-known blocks for sm_80, and their spills.

usage: kernels.py TCC-ML FOLDER
"""
import json
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h
from onnx import numpy_helper as nh

rng = np.random.default_rng(0)


class Net:
    def __init__(self, shape):
        self.nodes, self.consts = [], []
        self.inputs = [h.make_tensor_value_info("x", P.FLOAT, shape)]

    def const(self, a):
        name = f"c{len(self.consts)}"
        self.consts.append(nh.from_array(np.asarray(a), name))
        return name

    def weight(self, *shape):
        return self.const(rng.standard_normal(shape).astype(np.float32))

    def __call__(self, op, *inputs, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(h.make_node(op, inputs, [name], **attrs))
        return name

    def save(self, path, y):
        graph = h.make_graph(self.nodes, "g", self.inputs,
                             [h.make_tensor_value_info(y, P.FLOAT, None)], self.consts)
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def conv(n, x, cin, cout, k, group=1):
    y = n("Conv", x, n.weight(cout, cin // group, k, k), pads=[k // 2] * 4, group=group)
    return n("BatchNormalization", y, *(n.const(np.ones(cout, np.float32)) for _ in range(4)))


def residual(path):
    """ResNet's bottleneck: three convolutions, each with what follows it."""
    n = Net([1, 64, 14, 14])
    y = n("Relu", conv(n, "x", 64, 16, 1))
    y = n("Relu", conv(n, y, 16, 16, 3))
    n.save(path, n("Relu", n("Add", conv(n, y, 16, 64, 1), "x")))


def inverted(path):
    """MobileNet's block; what the depthwise convolution pads is stored once."""
    n = Net(["batch", 16, 14, 14])
    y = n("HardSwish", conv(n, "x", 16, 64, 1))
    y = n("HardSwish", conv(n, y, 64, 64, 3, 64))
    n.save(path, n("Add", conv(n, y, 64, 16, 1), "x"))


def linear(n, x, a, b):
    return n("Add", n("MatMul", x, n.weight(a, b)), n.weight(b))


def heads(n, x, perm):
    return n("Transpose", n("Reshape", x, n.const(np.array([0, 0, 4, 16]))), perm=perm)


def norm(n, x):
    """Layer normalisation as exporters spell it out."""
    d = n("Sub", x, n("ReduceMean", x, axes=[-1]))
    v = n("ReduceMean", n("Pow", d, n.const(np.float32(2))), axes=[-1])
    y = n("Div", d, n("Sqrt", n("Add", v, n.const(np.float32(1e-12)))))
    return n("Add", n("Mul", y, n.weight(64)), n.weight(64))


def gelu(n, x):
    e = n("Add", n("Erf", n("Div", x, n.const(np.float32(2**0.5)))), n.const(np.float32(1)))
    return n("Mul", n("Mul", x, e), n.const(np.float32(0.5)))


def encoder(path):
    """BERT's layer: attention in four heads and a feed-forward part."""
    n = Net(["batch", "sequence", 64])
    q, k, v = (linear(n, "x", 64, 64) for _ in range(3))
    s = n("MatMul", heads(n, q, [0, 2, 1, 3]), heads(n, k, [0, 2, 3, 1]))
    p = n("Softmax", n("Div", s, n.const(np.float32(4))), axis=-1)
    y = n("Transpose", n("MatMul", p, heads(n, v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    y = norm(n, n("Add", linear(n, n("Reshape", y, n.const(np.array([0, 0, 64]))), 64, 64), "x"))
    z = linear(n, gelu(n, linear(n, y, 64, 256)), 256, 64)
    n.save(path, norm(n, n("Add", z, y)))


def long_sum(path):
    """What follows BERT's widest product: its sum is cut into parts, which the norm's kernel adds."""
    n = Net([1, 32, 3072])
    n.save(path, norm(n, n("Add", linear(n, "x", 3072, 64), n.weight(1, 32, 64))))


def classifier(path):
    """A picture's conversion is part of its first convolution, and a residual is stored once; the mean of all
    pixels is not computed anew in each block of what it is multiplied by."""
    n = Net([1, 3, 32, 32])
    x = n("Relu", n("Conv", "x", n.weight(64, 3, 7, 7), pads=[3] * 4, strides=[2, 2]))
    for _ in range(2):
        y = n("Relu", conv(n, x, 64, 64, 3))
        x = n("Relu", n("Add", conv(n, y, 64, 64, 1), x))
    y = n("Flatten", n("GlobalAveragePool", conv(n, x, 64, 1024, 1)))
    n.save(path, n("Gemm", y, n.weight(1024, 1000), n.weight(1000)))


def main():
    tcc, tmp = sys.argv[1:]
    failed = 0
    cases = (residual, 3), (inverted, 3), (encoder, 7), (long_sum, 2), (classifier, 8, "--precision", "f16")
    for make, most, *options in cases:
        path = f"{tmp}/{make.__name__}.onnx"
        make(path)
        r = subprocess.run([tcc, "inspect", path, "--target", "sm_80", "--json", *options], capture_output=True, text=True)
        if r.returncode:
            raise SystemExit(f"exit {r.returncode}: {r.stdout}{r.stderr}")
        kernels = json.loads(r.stdout)["kernels"]
        spills = sum(k.get("spills", 0) for k in kernels)
        failed += len(kernels) > most or spills > 0
        print(f"{make.__name__}: {len(kernels)} kernels, at most {most}; {spills:.0f} bytes spilled")
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
