"""What profile predicts beside what others have measured of kernels and networks of the same kind, and the goals
for predictions. The networks are built here, in f16, with weights of no meaning.

usage: published.py TCC-ML FOLDER
Prints predicted and published microseconds and their ratio; exit code 1 where a goal is missed or a ratio lies outside of RATIOS.
"""
import json
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h
from onnx import numpy_helper as nh

RATIOS = 0.4, 1.6
rng = np.random.default_rng(0)


class Net:
    """A graph under construction; every method returns a value's name."""

    def __init__(self):
        self.nodes, self.weights, self.inputs = [], [], []

    def input(self, name, shape, dtype=P.FLOAT16):
        self.inputs.append(h.make_tensor_value_info(name, dtype, shape))
        return name

    def weight(self, *shape, dtype=np.float16):
        name = f"w{len(self.weights)}"
        a = (rng.integers(-4, 5, shape) / 64).astype(dtype) if shape else np.array(0.125, dtype)
        self.weights.append(nh.from_array(a, name))
        return name

    def const(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(nh.from_array(np.asarray(value), name))
        return name

    def op(self, kind, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(h.make_node(kind, list(inputs), [name], name=f"{kind}{len(self.nodes)}", **attributes))
        return name

    def save(self, path, out):
        graph = h.make_graph(self.nodes, "net", self.inputs, [h.make_tensor_value_info(out, P.FLOAT16, None)], self.weights)
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 23)], ir_version=10), path)


def conv(n, x, c, o, k, stride=1):
    return n.op("Conv", x, n.weight(o, c, k, k), n.weight(o), pads=[k // 2] * 4, strides=[stride] * 2)


def resnet50(batch):
    n = Net()
    x = n.op("Relu", conv(n, n.input("x", [batch, 3, 224, 224]), 3, 64, 7, 2))
    x, c = n.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        w = 64 << stage
        for b in range(blocks):
            stride = 2 if stage and not b else 1
            short = conv(n, x, c, 4 * w, 1, stride) if not b else x
            y = n.op("Relu", conv(n, x, c, w, 1))
            y = n.op("Relu", conv(n, y, w, w, 3, stride))
            x, c = n.op("Relu", n.op("Add", conv(n, y, w, 4 * w, 1), short)), 4 * w
    x = n.op("Flatten", n.op("GlobalAveragePool", x))
    return n, n.op("Gemm", x, n.weight(2048, 1000), n.weight(1000))


def norm(n, x):
    return n.op("LayerNormalization", x, n.weight(768), n.weight(768))


def dense(n, x, i, o):
    return n.op("Add", n.op("MatMul", x, n.weight(i, o)), n.weight(o))


def heads(n, x, batch, perm):
    shape = n.const(np.array([batch, 128, 12, 64], np.int64))
    return n.op("Transpose", n.op("Reshape", x, shape), perm=perm)


def bert_layer(n, x, batch):
    q, k, v = (dense(n, x, 768, 768) for _ in "qkv")
    q, v = (heads(n, t, batch, [0, 2, 1, 3]) for t in (q, v))
    s = n.op("Mul", n.op("MatMul", q, heads(n, k, batch, [0, 2, 3, 1])), n.weight())
    a = n.op("Transpose", n.op("MatMul", n.op("Softmax", s), v), perm=[0, 2, 1, 3])
    a = n.op("Reshape", a, n.const(np.array([batch, 128, 768], np.int64)))
    x = norm(n, n.op("Add", dense(n, a, 768, 768), x))
    y = dense(n, x, 768, 3072)
    e = n.op("Erf", n.op("Div", y, n.const(np.float16(2 ** 0.5))))
    y = n.op("Mul", n.op("Mul", y, n.op("Add", e, n.const(np.float16(1)))), n.const(np.float16(0.5)))
    return norm(n, n.op("Add", dense(n, y, 3072, 768), x))


def bert(batch):
    n = Net()
    x = n.op("Gather", n.weight(30522, 768), n.input("ids", [batch, 128], P.INT64))
    x = norm(n, n.op("Add", x, n.weight(128, 768)))
    for _ in range(12):
        x = bert_layer(n, x, batch)
    return n, x


def product(m, k, n_):
    n = Net()
    return n, n.op("MatMul", n.input("a", [m, k]), n.input("b", [k, n_]))


def softmax(rows, columns):
    n = Net()
    return n, n.op("Softmax", n.input("x", [rows, columns]))


def attention(heads, n_, depth):
    n = Net()
    return n, n.op("Attention", *(n.input(x, [4, heads, n_, depth]) for x in "qkv"))


FLOPS = 2 * 4096 ** 3
ATTENTION = 4 * 4 * 16 * 2048 ** 2 * 128
LAUNCHES = {"ResNet-50, 1": 56, "ResNet-50, 32": 56, "BERT-base, 1": 7 * 12 + 3, "BERT-base, 32": 7 * 12 + 3}
# name: network, machine, published us (None: only a goal), goal in us (None: none), what was measured
CASES = {
    "ResNet-50, 1": (resnet50(1), "sm_80", 580, 500, "AITemplate, A100"),
    "ResNet-50, 8": (resnet50(8), "sm_80", 880, None, "AITemplate, A100"),
    "ResNet-50, 32": (resnet50(32), "sm_80", None, 2500, ""),
    "ResNet-50, 64": (resnet50(64), "sm_80", 4530, None, "AITemplate, A100"),
    "BERT-base, 1": (bert(1), "sm_80", 780, 600, "AITemplate, A100"),
    "BERT-base, 32": (bert(32), "sm_80", 4170, 3800, "AITemplate, A100"),
    "product 4096": (product(4096, 4096, 4096), "sm_80", None, FLOPS / 312e6 / 0.8, "80 % of the peak"),
    "attention 2048, 128": (attention(16, 2048, 128), "sm_80", None, ATTENTION / 312e6 / 0.7, "70 % of the peak"),
    "attention 2048, 128, sm_90a": (attention(16, 2048, 128), "sm_90a", None, ATTENTION / 989e6 / 0.65, "65 % of the peak"),
    "product 1024": (product(1024, 1024, 1024), "sm_90", 10.6, None, "Inductor with Triton, H100"),
    "product 2040 x 3584 x 3584": (product(2040, 3584, 3584), "sm_90", 91.1, None, "Inductor with Triton, H100"),
    "softmax 16384 x 4096": (softmax(16384, 4096), "sm_90", 4 * 16384 * 4096 / 3e6, None, "QuACK, 3 TB/s on H100"),
}


def predicted(tcc, path, machine):
    r = subprocess.run([tcc, "profile", path, "--target", machine, "--json"], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"exit {r.returncode}: {r.stdout}{r.stderr}")
    return json.loads(r.stdout)


def main():
    tcc, tmp = sys.argv[1:]
    failed, ratios = 0, []
    for name, ((net, out), machine, published, goal, source) in CASES.items():
        net.save(f"{tmp}/net.onnx", out)
        p = predicted(tcc, f"{tmp}/net.onnx", machine)
        us, faults = p["predicted_us"], []
        if goal and us > goal:
            faults.append(f"the goal of {goal:.0f} us is not reached")
        if len(p["kernels"]) > LAUNCHES.get(name, len(p["kernels"])):
            faults.append(f"more than {LAUNCHES[name]} launches")
        if published:
            ratios.append(us / published)
            if not RATIOS[0] <= ratios[-1] <= RATIOS[1]:
                faults.append(f"not within {RATIOS[0]} and {RATIOS[1]} of it")
        beside = f"published {published:.1f} ({source}), ratio {us / published:.2f}" if published else source
        print(f"{name}: {len(p['kernels'])} kernels, predicted {us:.1f} us on {machine}; {beside}"
              + "".join(f"; {f}" for f in faults), flush=True)
        failed += bool(faults)
    off = np.abs(np.log(ratios))
    print(f"mean error over {len(ratios)}: {100 * (np.exp(off.mean()) - 1):.0f} %, greatest {100 * (np.exp(off.max()) - 1):.0f} %")
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
