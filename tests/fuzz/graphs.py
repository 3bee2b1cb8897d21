"""Random ONNX graphs as cases in the form of the backend tests, with onnxruntime's results.

usage: graphs.py FIRST COUNT OUT: OUT/g<seed> for each seed. A seed gives the same case every time.

What single operators cannot show, and real models do: chains of views, broadcasts, reductions, products
and selections whose kernels meet. Dimensions are symbolic half of the time, and then a second data set
has other sizes for the same model.
"""
import os
import random
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper, numpy_helper

F, I, B = np.float32, np.int64, np.bool_
ONNX = {np.dtype(F): T.FLOAT, np.dtype(I): T.INT64, np.dtype(B): T.BOOL, np.dtype(np.int32): T.INT32,
        np.dtype(np.uint8): T.UINT8, np.dtype(np.int8): T.INT8}


class Skip(Exception):
    """The operator does not apply to these values."""


class Graph:
    """A graph under construction; shapes are lists of symbols and numbers, sizes says what symbols are."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.sizes = {}
        self.nodes, self.inits, self.inputs = [], [], []
        self.values = []                       # name, dtype, shape
        self.n = 0

    def name(self):
        self.n += 1
        return f"v{self.n}"

    def const(self, a):
        name = self.name()
        self.inits.append(numpy_helper.from_array(np.array(a, order="C"), name))
        return name

    def node(self, op, ins, dtype, shape, nout=1, **attrs):
        outs = [self.name() for _ in range(nout)]
        self.nodes.append(helper.make_node(op, ins, outs, **attrs))
        shapes = shape if nout > 1 else [shape]
        for o, s in zip(outs, shapes):
            self.values.append((o, np.dtype(dtype), list(s)))
        return outs[0]

    def dim(self):
        if self.symbolic and self.r.random() < 0.5:
            s = f"s{self.r.randrange(3)}"
            self.sizes.setdefault(s, self.r.choice([1, 2, 3, 5, 8, 17]))
            return s
        return self.r.choice([1, 2, 3, 4, 5, 7, 8, 16, 17, 33])

    def pick(self, dtype=None, rank=None, least=0):
        """A value, most likely a late one."""
        c = [v for v in self.values if (dtype is None or v[1] == dtype) and len(v[2]) >= least
             and (rank is None or len(v[2]) == rank)]
        if not c:
            raise Skip
        return c[-1 - min(int(self.r.expovariate(0.6)), len(c) - 1)]

    def fixed(self, s):
        if any(isinstance(d, str) for d in s):
            raise Skip
        return s


def weight(g, shape):
    rng = np.random.default_rng(g.r.randrange(1 << 30))
    return g.const((rng.standard_normal(shape) * 0.5).astype(F))


def off_steps(g, n, t, s):
    """Moved away from where functions with steps turn a last bit into a whole."""
    return g.node("Add", [n, g.const(np.array(0.3719, F))], t, s)


def unary(g):
    n, t, s = g.pick(F)
    op = g.r.choice(["Relu", "Tanh", "Sigmoid", "Erf", "Abs", "Neg", "Softplus", "HardSigmoid", "Identity",
                     "LeakyRelu", "Elu", "Floor", "Cos", "Sin", "HardSwish", "Sign"])
    if op in ("Floor", "Sign"):
        n = off_steps(g, n, t, s)
    g.node(op, [n], t, s)


def binary(g):
    n, t, s = g.pick(F)
    op = g.r.choice(["Add", "Sub", "Mul", "Max", "Min", "Add", "Mul"])
    kind = g.r.randrange(4)
    if kind == 0:
        other = weight(g, [])
    elif kind == 1 and s and isinstance(s[-1], int):
        other = weight(g, [s[-1]])
    elif kind == 2:                            # broadcasts what has size 1, or a part of the axes
        k = g.r.randrange(len(s) + 1)
        other = weight(g, [d if isinstance(d, int) and g.r.random() < 0.7 else 1 for d in s[k:]])
    else:
        same = [v for v in g.values if v[1] == t and v[2] == s]
        other = g.r.choice(same)[0]
    ins = [n, other] if g.r.random() < 0.7 else [other, n]
    g.node(op, ins, t, s)


def divide(g):
    n, t, s = g.pick(F)
    m = g.node("Abs", [n], t, s)
    m = g.node("Add", [m, g.const(np.array(1, F))], t, s)
    g.node("Div", [n, m], t, s)


def transpose(g):
    n, t, s = g.pick(least=2)
    p = list(range(len(s)))
    g.r.shuffle(p)
    g.node("Transpose", [n], t, [s[i] for i in p], perm=p)


def reshape(g):
    n, t, s = g.pick(least=1)
    k = g.r.randrange(len(s))
    kind = g.r.randrange(4)
    if kind == 0 and len(s) >= 2 and k + 1 < len(s):       # joins two
        if isinstance(s[k], str) or isinstance(s[k + 1], str):
            raise Skip
        to = s[:k] + [s[k] * s[k + 1]] + s[k + 2:]
    elif kind == 1 and isinstance(s[k], int) and len(s) < 6:   # splits one
        f = [d for d in (2, 3, 4, 8) if s[k] % d == 0 and s[k] > d]
        if not f:
            raise Skip
        f = g.r.choice(f)
        to = s[:k] + ([f, s[k] // f] if g.r.random() < 0.5 else [s[k] // f, f]) + s[k + 1:]
    elif kind == 2 and len(s) < 6:
        to = s[:k] + [1] + s[k:]
    else:
        to = [int(np.prod(g.fixed(s)))] if s else [1]
    shape = [0 if isinstance(d, str) and i < len(s) and s[i] == d else d for i, d in enumerate(to)]
    if sum(isinstance(d, str) for d in shape) > 1:
        raise Skip
    shape = [-1 if isinstance(d, str) else d for d in shape]
    if g.r.random() < 0.3 and -1 not in shape and 0 not in shape and shape:
        shape[g.r.randrange(len(shape))] = -1
    g.node("Reshape", [n, g.const(np.array(shape, I))], t, to)


def dynamic_reshape(g):
    """The shape computed from Shape, as exporters write it."""
    n, t, s = g.pick(least=2)
    sh = g.node("Shape", [n], I, [len(s)])
    k = g.r.randrange(len(s))
    d = g.node("Gather", [sh, g.const(np.array(k, I))], I, [])
    d = g.node("Unsqueeze", [d, g.const(np.array([0], I))], I, [1])
    rest = g.const(np.array([-1], I))
    c = g.node("Concat", [d, rest], I, [2], axis=0)
    if any(isinstance(x, str) for i, x in enumerate(s) if i != k):
        raise Skip
    other = int(np.prod([x for i, x in enumerate(s) if i != k]))
    g.node("Reshape", [n, c], t, [s[k], other])


def squeeze(g):
    n, t, s = g.pick(least=1)
    one = [i for i, d in enumerate(s) if d == 1]
    if one and g.r.random() < 0.5:
        k = g.r.choice(one)
        g.node("Squeeze", [n, g.const(np.array([k - len(s) if g.r.random() < 0.5 else k], I))], t, s[:k] + s[k + 1:])
    elif len(s) < 6:
        k = g.r.randrange(len(s) + 1)
        g.node("Unsqueeze", [n, g.const(np.array([k], I))], t, s[:k] + [1] + s[k:])


def slice_(g):
    n, t, s = g.pick(least=1)
    axes = sorted(g.r.sample(range(len(s)), g.r.randint(1, min(2, len(s)))))
    starts, ends, steps, to = [], [], [], list(s)
    for a in axes:
        d = s[a]
        if isinstance(d, str):
            raise Skip
        step = g.r.choice([1, 1, 1, 2, -1, -2, 3])
        a0, a1 = sorted(g.r.sample(range(d + 1), 2)) if d >= 1 else (0, 0)
        if step < 0:
            rng = range(a1 - 1, a0 - 1, step)
            starts.append(a1 - 1)
            ends.append(a0 - 1 - d if a0 > 0 else -(1 << 40))
            if a0 > 0:
                ends[-1] = a0 - 1
        else:
            rng = range(a0, a1, step)
            starts.append(a0 - d if g.r.random() < 0.3 else a0)
            ends.append(a1 if a1 < d or g.r.random() < 0.5 else 1 << 50)
        steps.append(step)
        to[a] = len(rng)
    g.node("Slice", [n] + [g.const(np.array(x, I)) for x in (starts, ends, axes, steps)], t, to)


def concat(g):
    n, t, s = g.pick(least=1)
    k = g.r.randrange(len(s))
    c = [v for v in g.values if v[1] == t and len(v[2]) == len(s)
         and all(a == b for i, (a, b) in enumerate(zip(v[2], s)) if i != k)]
    c = [g.r.choice(c) for _ in range(g.r.randint(1, 3))]
    if any(isinstance(v[2][k], str) for v in c) or isinstance(s[k], str):
        raise Skip
    g.node("Concat", [n] + [v[0] for v in c], t, s[:k] + [s[k] + sum(v[2][k] for v in c)] + s[k + 1:], axis=k)


def split(g):
    n, t, s = g.pick(least=1)
    k = g.r.randrange(len(s))
    d = s[k]
    if isinstance(d, str) or d < 2:
        raise Skip
    a = g.r.randint(1, d - 1)
    g.node("Split", [n, g.const(np.array([a, d - a], I))], t,
           [s[:k] + [a] + s[k + 1:], s[:k] + [d - a] + s[k + 1:]], nout=2, axis=k)


def pad(g):
    n, t, s = g.pick(F, least=1)
    g.fixed(s)
    mode = g.r.choice(["constant", "constant", "edge", "reflect"])
    most = [min(2, max(0, d - 1)) if mode == "reflect" else 2 for d in s]
    a = [g.r.randint(0, m) for m in most]
    b = [g.r.randint(0, m) for m in most]
    if mode != "constant" and 0 in s:
        raise Skip
    ins = [n, g.const(np.array(a + b, I))]
    if mode == "constant" and g.r.random() < 0.5:
        ins.append(g.const(np.array(0.25, F)))
    g.node("Pad", ins, t, [x + y + z for x, y, z in zip(a, s, b)], mode=mode)


def reduce_(g):
    n, t, s = g.pick(F, least=1)
    op = g.r.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"])
    axes = sorted(g.r.sample(range(len(s)), g.r.randint(1, len(s))))
    keep = g.r.randrange(2)
    to = [1 if i in axes else d for i, d in enumerate(s) if keep or i not in axes]
    g.node(op, [n, g.const(np.array(axes, I))], t, to, keepdims=keep)


def softmax(g):
    n, t, s = g.pick(F, least=1)
    g.node(g.r.choice(["Softmax", "LogSoftmax"]), [n], t, s, axis=g.r.randrange(-len(s), len(s)))


def layer_norm(g):
    n, t, s = g.pick(F, least=1)
    if not isinstance(s[-1], int) or s[-1] < 2:
        raise Skip
    g.node("LayerNormalization", [n, weight(g, [s[-1]]), weight(g, [s[-1]])], t, s, axis=-1, epsilon=1e-2)


def matmul(g):
    n, t, s = g.pick(F, least=2)
    k = s[-1]
    if g.r.random() < 0.6:
        if not isinstance(k, int):
            raise Skip
        m = g.r.choice([1, 2, 3, 8, 16, 17, 40])
        lead = s[:-2] if g.r.random() < 0.2 and all(isinstance(d, int) for d in s[:-2]) else []
        g.node("MatMul", [n, weight(g, lead + [k, m])], t, s[:-1] + [m])
        return
    p = list(range(len(s)))
    p[-1], p[-2] = p[-2], p[-1]
    o = g.node("Transpose", [n], t, [s[i] for i in p], perm=p)
    m = g.node("MatMul", [n, o], t, s[:-1] + [s[-2]])
    g.node("Tanh", [m], t, s[:-1] + [s[-2]])


def gemm(g):
    n, t, s = g.pick(F, rank=2)
    ta, tb = g.r.randrange(2), g.r.randrange(2)
    rows, k = (s[1], s[0]) if ta else s
    if not isinstance(k, int):
        raise Skip
    m = g.r.choice([1, 3, 16, 20])
    c = [] if g.r.random() < 0.3 else [weight(g, g.r.choice([[m], [1, m], [1], []]))]
    g.node("Gemm", [n, weight(g, [m, k] if tb else [k, m])] + c, t, [rows, m], transA=ta, transB=tb,
           alpha=0.5, beta=1.5)


def conv(g):
    n, t, s = g.pick(F, least=3)
    if len(s) > 5 or any(isinstance(d, str) for d in s[1:]) or 0 in s:
        raise Skip
    nd = len(s) - 2
    ker = [g.r.choice([1, 2, 3]) for _ in range(nd)]
    pads = [g.r.randint(0, 1) for _ in range(2 * nd)]
    strides = [g.r.choice([1, 1, 2]) for _ in range(nd)]
    dil = [g.r.choice([1, 1, 2]) for _ in range(nd)]
    out = [(d + pads[i] + pads[nd + i] - dil[i] * (ker[i] - 1) - 1) // strides[i] + 1 for i, d in enumerate(s[2:])]
    if min(out) < 1:
        raise Skip
    groups = g.r.choice([d for d in (1, 1, 1, 2, s[1]) if s[1] % d == 0])
    co = groups * g.r.choice([1, 2, 5, 16])
    b = [weight(g, [co])] if g.r.random() < 0.6 else []
    g.node("Conv", [n, weight(g, [co, s[1] // groups] + ker)] + b, t, [s[0], co] + out, kernel_shape=ker,
           pads=pads, strides=strides, dilations=dil, group=groups)


def pool(g):
    n, t, s = g.pick(F, least=3)
    if len(s) > 5 or any(isinstance(d, str) for d in s[1:]) or 0 in s:
        raise Skip
    nd = len(s) - 2
    ker = [g.r.choice([1, 2, 3]) for _ in range(nd)]
    strides = [g.r.choice([1, 2]) for _ in range(nd)]
    pads = [g.r.randint(0, k // 2) for k in ker] * 2
    out = [(d + 2 * pads[i] - ker[i]) // strides[i] + 1 for i, d in enumerate(s[2:])]
    if min(out) < 1:
        raise Skip
    g.node(g.r.choice(["MaxPool", "AveragePool"]), [n], t, s[:2] + out, kernel_shape=ker, strides=strides, pads=pads)


def gather(g):
    n, t, s = g.pick(least=1)
    k = g.r.randrange(len(s))
    if not isinstance(s[k], int) or s[k] == 0:
        raise Skip
    shape = g.r.choice([[], [2], [3], [2, 2]])
    if len(s) + len(shape) > 6:
        raise Skip
    idx = np.array([g.r.randrange(-s[k], s[k]) for _ in range(int(np.prod(shape)))], I).reshape(shape)
    g.node("Gather", [n, g.const(idx)], t, s[:k] + shape + s[k + 1:], axis=k)


def expand(g):
    n, t, s = g.pick()
    to = [g.r.choice([2, 3]) if d == 1 else d for d in s]
    arg = [1 if isinstance(d, str) else d for d in to]
    if g.r.random() < 0.3 and len(s) < 6:
        to, arg = [2] + to, [2] + arg
    g.node("Expand", [n, g.const(np.array(arg, I))], t, to)


def tile(g):
    n, t, s = g.pick(least=1)
    r = [1 if isinstance(d, str) else g.r.choice([1, 1, 2, 3]) for d in s]
    if int(np.prod([d for d in s if isinstance(d, int)])) > 20000:
        raise Skip
    g.node("Tile", [n, g.const(np.array(r, I))], t, [d if isinstance(d, str) else d * x for d, x in zip(s, r)])


def where(g):
    n, t, s = g.pick(F)
    c = g.node(g.r.choice(["Less", "Greater", "GreaterOrEqual"]), [n, weight(g, [])], B, s)
    other = g.r.choice([v for v in g.values if v[1] == t and v[2] == s])[0] if g.r.random() < 0.5 else weight(g, [])
    g.node("Where", [c, n, other], t, s)


def cast(g):
    n, t, s = g.pick()
    to = g.r.choice([F, F, I, np.int32, B])
    if t == F and to in (I, np.int32):
        n = g.node("Floor", [off_steps(g, n, t, s)], F, s)
    g.node("Cast", [n], to, s, to=ONNX[np.dtype(to)])


def integer(g):
    n, t, s = g.pick(I)
    if not s or g.r.random() < 0.5:
        g.node(g.r.choice(["Add", "Mul", "Sub"]), [n, g.const(np.array(g.r.randint(-3, 3), I))], t, s)
    else:
        g.node("Mod", [n, g.const(np.array(g.r.randint(2, 5), I))], t, s)


def cumsum(g):
    n, t, s = g.pick(F, least=1)
    g.node("CumSum", [n, g.const(np.array(g.r.randrange(len(s)), I))], t, s,
           exclusive=g.r.randrange(2), reverse=g.r.randrange(2))


def argmax(g):
    n, t, s = g.pick(F, least=1)
    k = g.r.randrange(len(s))
    keep = g.r.randrange(2)
    if s[k] == 0:
        raise Skip
    n = g.node("Floor", [off_steps(g, g.node("Mul", [n, g.const(np.array(4, F))], t, s), t, s)], t, s)   # ties
    g.node("ArgMax", [n], I, [1 if i == k else d for i, d in enumerate(s) if keep or i != k], axis=k, keepdims=keep)


def topk(g):
    n, t, s = g.pick(F, least=1)
    k = g.r.randrange(len(s))
    if not isinstance(s[k], int) or s[k] < 1:
        raise Skip
    c = g.r.randint(1, s[k])
    to = s[:k] + [c] + s[k + 1:]
    g.node("TopK", [n, g.const(np.array([c], I))], t, [to, to], nout=2, axis=k)
    g.values.pop()                              # near ties: indices are not compared


def resize(g):
    n, t, s = g.pick(F, rank=4)
    if any(isinstance(d, str) for d in s[2:]) or 0 in s:
        raise Skip
    f = [g.r.choice([1.0, 2.0, 0.5, 1.5]) for _ in range(2)]
    out = [int(np.floor(d * x)) for d, x in zip(s[2:], f)]
    if min(out) < 1 or max(out) > 60:
        raise Skip
    mode = g.r.choice(["nearest", "linear"])
    coord = g.r.choice(["asymmetric", "half_pixel", "align_corners"])
    if coord == "align_corners" and (min(out + s[2:]) < 2 or any(d * x % 1 for d, x in zip(s[2:], f))):
        raise Skip                              # onnxruntime rounds the length, the standard does not
    if mode == "nearest":
        coord = "asymmetric"
    g.node("Resize", [n, "", g.const(np.array([1, 1] + f, F))], t, s[:2] + out, mode=mode,
           coordinate_transformation_mode=coord, **({"nearest_mode": "floor"} if mode == "nearest" else {}))


def scatter(g):
    n, t, s = g.pick(F, least=1)
    g.fixed(s)
    k = g.r.randrange(len(s))
    if s[k] == 0:
        raise Skip
    c = g.r.randint(1, s[k])
    idx = np.stack([np.random.default_rng(g.r.randrange(1 << 30)).permutation(s[k])[:c]
                    for _ in range(int(np.prod(s)) // s[k])]) if np.prod(s) else None
    if idx is None:
        raise Skip
    rest = [d for i, d in enumerate(s) if i != k]
    idx = np.moveaxis(idx.reshape(rest + [c]), -1, k).astype(I)
    up = weight(g, list(idx.shape))
    red = g.r.choice(["none", "add"])
    g.node("ScatterElements", [n, g.const(idx), up], t, s, axis=k, **({} if red == "none" else {"reduction": red}))


def quantize(g):
    n, t, s = g.pick(F)
    z = g.r.choice([0, 3])
    sc = g.const(np.array(0.03125, F))
    zp = g.const(np.array(z, np.uint8))
    q = g.node("QuantizeLinear", [n, sc, zp], np.uint8, s)
    g.values.pop()
    g.node("DequantizeLinear", [q, sc, zp], t, s)


def batch_norm(g):
    n, t, s = g.pick(F, least=3)
    if not isinstance(s[1], int) or s[1] == 0:
        raise Skip
    rng = np.random.default_rng(g.r.randrange(1 << 30))
    var = g.const((rng.random(s[1]) + 0.5).astype(F))
    g.node("BatchNormalization", [n, weight(g, [s[1]]), weight(g, [s[1]]), weight(g, [s[1]]), var], t, s)


def einsum(g):
    n, t, s = g.pick(F, rank=3)
    if any(isinstance(d, str) for d in s[1:]):
        raise Skip
    eq, shape, to = g.r.choice([
        ("abc,cd->abd", [s[2], 3], [s[0], s[1], 3]), ("abc,bcd->ad", [s[1], s[2], 4], [s[0], 4]),
        ("abc,bd->acd", [s[1], 2], [s[0], s[2], 2]), ("abc,c->ba", [s[2]], [s[1], s[0]])])
    g.node("Tanh", [g.node("Einsum", [n, weight(g, shape)], t, to, equation=eq)], t, to)


def recurrent(g):
    n, t, s = g.pick(F, rank=3)
    if not isinstance(s[2], int) or 0 in s:
        raise Skip
    op, gates = g.r.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    h, d = g.r.choice([2, 5, 16]), g.r.choice(["forward", "reverse", "bidirectional"])
    k = 2 if d == "bidirectional" else 1
    ins = [n, weight(g, [k, gates * h, s[2]]), weight(g, [k, gates * h, h])]
    if g.r.random() < 0.6:
        ins.append(weight(g, [k, 2 * gates * h]))
    attrs = {"linear_before_reset": g.r.randrange(2)} if op == "GRU" else {}
    g.node(op, ins, t, [[s[0], k, s[1], h], [k, s[1], h]], nout=2, hidden_size=h, direction=d, **attrs)


def gather_elements(g):
    n, t, s = g.pick(least=1)
    g.fixed(s)
    k = g.r.randrange(len(s))
    if 0 in s:
        raise Skip
    to = s[:k] + [g.r.randint(1, 4)] + s[k + 1:]
    idx = np.random.default_rng(g.r.randrange(1 << 30)).integers(-s[k], s[k], to)
    g.node("GatherElements", [n, g.const(idx)], t, to, axis=k)


def gather_nd(g):
    n, t, s = g.pick(least=2)
    if any(isinstance(d, str) or d == 0 for d in s[:2]):
        raise Skip
    idx = np.stack([np.random.default_rng(g.r.randrange(1 << 30)).integers(-d, d, 4) for d in s[:2]], -1)
    g.node("GatherND", [n, g.const(idx)], t, [4] + s[2:])


def scatter_nd(g):
    n, t, s = g.pick(F, least=1)
    if isinstance(s[0], str) or s[0] == 0 or any(isinstance(d, str) for d in s):
        raise Skip
    c = g.r.randint(1, s[0])
    idx = np.random.default_rng(g.r.randrange(1 << 30)).permutation(s[0])[:c].reshape(-1, 1)
    g.node("ScatterND", [n, g.const(idx), weight(g, [c] + s[1:])], t, s,
           **({"reduction": "add"} if g.r.random() < 0.5 else {}))


def nonzero(g):
    """A size that data decide; what follows has it as well."""
    n, t, s = g.pick(F, rank=1)
    z = g.node("NonZero", [g.node("Greater", [n, g.const(np.array(0, F))], B, s)], I, [1, "?"])
    z = g.node("Squeeze", [z, g.const(np.array([0], I))], I, ["?"])
    g.values = [v for v in g.values if "?" not in v[2]]
    v = g.node("Gather", [n, z], F, ["?"], axis=0)
    g.values = [v for v in g.values if "?" not in v[2]]
    g.node("ReduceSum", [g.node("Tanh", [v], F, ["?"]), g.const(np.array([0], I))], F, [], keepdims=0)
    g.values = [v for v in g.values if "?" not in v[2]]


def onehot(g):
    n, t, s = g.pick(I)
    if not 0 < len(s) < 5:
        raise Skip
    n = g.node("Mod", [n, g.const(np.array(5, I))], I, s)
    g.node("OneHot", [n, g.const(np.array([5], I)), g.const(np.array([-1, 2], F))], F, s + [5])


def attention(g):
    """Softmax of scaled products, as exporters spell it, from one value."""
    n, t, s = g.pick(F, rank=3)
    if not isinstance(s[2], int) or s[2] % 2 or s[2] == 0 or 0 in s:
        raise Skip
    h, d = 2, s[2] // 2
    heads = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        p = g.node("MatMul", [n, weight(g, [s[2], s[2]])], t, s)
        p = g.node("Reshape", [p, g.const(np.array([0, 0, h, d], I))], t, [s[0], s[1], h, d])
        heads.append(g.node("Transpose", [p], t, [([s[0], s[1], h, d])[i] for i in perm], perm=perm))
    q, k, v = heads
    sc = g.node("MatMul", [q, k], t, [s[0], h, s[1], s[1]])
    sc = g.node("Mul", [sc, g.const(np.array(d ** -0.5, F))], t, [s[0], h, s[1], s[1]])
    sc = g.node("Softmax", [sc], t, [s[0], h, s[1], s[1]], axis=-1)
    o = g.node("MatMul", [sc, v], t, [s[0], h, s[1], d])
    o = g.node("Transpose", [o], t, [s[0], s[1], h, d], perm=[0, 2, 1, 3])
    o = g.node("Reshape", [o, g.const(np.array([0, 0, s[2]], I))], t, s)
    g.node("Add", [n, o], t, s)


def half(g):
    n, t, s = g.pick(F)
    c = g.node("Tanh", [n], t, s)
    c = g.node("Cast", [c], np.float16, s, to=T.FLOAT16)
    g.values.pop()
    g.node("Cast", [c], t, s, to=T.FLOAT)


def body(g, feed, shape):
    """A subgraph of one value: a few elementwise steps, with a capture."""
    nodes, at = [], feed
    for _ in range(g.r.randint(1, 3)):
        out = g.name()
        op = g.r.choice(["Tanh", "Neg", "Abs", "Sigmoid"])
        nodes.append(helper.make_node(op, [at], [out]))
        at = out
    out = g.name()
    nodes.append(helper.make_node("Mul", [at, weight(g, [])], [out]))
    return nodes, out


def branch(g):
    n, t, s = g.pick(F)
    m = g.node("ReduceSum", [n], t, [], keepdims=0)
    c = g.node("Greater", [m, g.const(np.array(0, F))], B, [])
    parts = []
    for k in range(2):
        nodes, out = body(g, n, s)
        parts.append(helper.make_graph(nodes, f"b{k}", [], [helper.make_tensor_value_info(out, T.FLOAT, None)]))
    g.node("If", [c], t, s, then_branch=parts[0], else_branch=parts[1])


def loop(g):
    n, t, s = g.pick(F)
    it, cond, x = g.name(), g.name(), g.name()
    nodes, out = body(g, x, s)
    go = g.name()
    nodes.append(helper.make_node("Identity", [cond], [go]))
    outs = [helper.make_tensor_value_info(go, T.BOOL, []), helper.make_tensor_value_info(out, T.FLOAT, None)]
    scan = g.r.random() < 0.5 and len(s) < 5
    trips = g.r.randint(1, 4)
    if scan:
        y = g.name()
        nodes.append(helper.make_node("Neg", [out], [y]))
        outs.append(helper.make_tensor_value_info(y, T.FLOAT, None))
    b = helper.make_graph(nodes, "body", [helper.make_tensor_value_info(it, T.INT64, []),
                          helper.make_tensor_value_info(cond, T.BOOL, []),
                          helper.make_tensor_value_info(x, T.FLOAT, None)], outs)
    ins = [g.const(np.array(trips, I)), g.const(np.array(True)), n]
    if scan:
        g.node("Loop", ins, t, [s, [trips] + s], nout=2, body=b)
    else:
        g.node("Loop", ins, t, s, body=b)


OPS = [unary] * 4 + [binary] * 5 + [transpose] * 3 + [reshape] * 3 + [dynamic_reshape, squeeze, squeeze, slice_, slice_,
       concat, concat, split, pad, reduce_, reduce_, softmax, layer_norm, matmul, matmul, matmul, gemm, conv, conv,
       conv, pool, gather, expand, tile, where, cast, integer, cumsum, argmax, topk, resize, scatter, quantize,
       batch_norm, einsum, recurrent, gather_elements, gather_nd, scatter_nd, nonzero, onehot, attention, attention, half,
       branch, loop]


def build(seed):
    g = Graph(seed)
    g.symbolic = g.r.random() < 0.5
    for i in range(g.r.randint(1, 3)):
        rank = g.r.choice([1, 2, 3, 3, 4, 4])
        shape = [g.dim() for _ in range(rank)]
        while np.prod([d if isinstance(d, int) else 8 for d in shape]) > 6000:
            shape[g.r.randrange(rank)] = 2
        g.inputs.append((f"x{i}", shape))
        g.values.append((f"x{i}", np.dtype(F), shape))
    for _ in range(g.r.randint(3, 25)):
        state = len(g.nodes), len(g.inits), len(g.values)
        try:
            g.r.choice(OPS)(g)
        except Skip:
            del g.nodes[state[0]:], g.inits[state[1]:], g.values[state[2]:]
        if g.values and np.prod([d if isinstance(d, int) else 17 for d in g.values[-1][2]]) > 60000:
            del g.nodes[state[0]:], g.inits[state[1]:], g.values[state[2]:]
    return g


def model(g):
    used = {i for n in g.nodes for i in n.input}
    made = [v for v in g.values if not v[0].startswith("x")]
    outs = [v for v in made if v[0] not in used] or made[-1:]
    if made and g.r.random() < 0.3:              # one that is also read inside
        outs = outs + [v for v in [g.r.choice(made)] if v not in outs]
    if not outs:
        return None
    graph = helper.make_graph(
        g.nodes, "g", [helper.make_tensor_value_info(n, T.FLOAT, s) for n, s in g.inputs],
        [helper.make_tensor_value_info(n, ONNX[t], None) for n, t, _ in outs], g.inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def feeds(g, sizes, seed):
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal([sizes.get(d, d) for d in s]).astype(F) for n, s in g.inputs}


def write(path, g, m):
    so = ort.SessionOptions()
    so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    so.log_severity_level = 4
    session = ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"])
    sets = [g.sizes] + ([{k: v % 5 + 1 for k, v in g.sizes.items()}] if g.sizes else [])
    for k, sizes in enumerate(sets):
        f = feeds(g, sizes, k)
        try:
            got = session.run(None, f)
        except Exception:                       # other sizes break what was laid out for the first
            if k == 0:
                raise
            break
        d = os.path.join(path, f"test_data_set_{k}")
        os.makedirs(d, exist_ok=True)
        for kind, arrays in (("input", f.values()), ("output", got)):
            for i, a in enumerate(arrays):
                with open(os.path.join(d, f"{kind}_{i}.pb"), "wb") as out:
                    out.write(numpy_helper.from_array(np.array(a, order="C")).SerializeToString())
    onnx.save(m, os.path.join(path, "model.onnx"))
    with open(os.path.join(path, "data.json"), "w") as f:
        f.write('{"rtol": 0.001, "atol": 0.0005}')


def main(first, count, out):
    for seed in range(int(first), int(first) + int(count)):
        g = build(seed)
        m = model(g)
        if not m:
            continue
        try:
            write(os.path.join(out, f"g{seed}"), g, m)
        except Exception as e:
            print(f"g{seed}: {str(e)[:120]}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
