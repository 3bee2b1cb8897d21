"""A decoder's step on GPUs: products of few rows on simulated devices against numpy, one artefact of a layer at
several lengths of its caches, its launches, and the share of memory's speed that is predicted.

usage: decode.py TCC-ML FOLDER
"""
import json
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h
from onnx import numpy_helper as nh

rng = np.random.default_rng(0)
DRAM = 2039e3 * 0.88    # bytes a us that the model grants on sm_80
LAUNCH = 2.0            # us, its constant
DEVICES = ["sm_80", "gfx942", "gfx1100"]


def normal(*shape):
    return (rng.standard_normal(shape) * 0.5).astype(np.float32)


def save(path, nodes, shapes, consts, outputs):
    ports = [h.make_tensor_value_info(n, P.FLOAT, s) for n, s in shapes.items()]
    graph = h.make_graph(nodes, "g", ports, [h.make_tensor_value_info(n, P.FLOAT, None) for n in outputs],
                         [nh.from_array(a, n) for n, a in consts.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)],
                           ir_version=9), path)


def call(args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"exit {r.returncode}: {' '.join(args)}: {r.stdout}{r.stderr}")
    return r.stdout


def schedules(tcc, tmp, device, *options):
    call([tcc, "compile", f"{tmp}/m.onnx", "--target", device, "--emit", "ir", "-o", f"{tmp}/m.ir", *options])
    return re.findall(r'^\tschedule "(.*)"', open(f"{tmp}/m.ir").read(), re.M)


def outputs(tcc, tmp, program, inputs, n, *options):
    for k, a in inputs.items():
        np.save(f"{tmp}/{k}.npy", a)
    call([tcc, "run", program, *options, "--simulate", "--output-dir", tmp]
         + [w for k in inputs for w in ("--input", f"{k}={tmp}/{k}.npy")])
    return [np.load(f"{tmp}/output_{i}.npy") for i in range(n)]


def off(got, want):
    return max(float(np.abs(g - w).max() / np.abs(w).max()) for g, w in zip(got, want))


# --- products -----------------------------------------------------------------------------------------

def plain(rows, k, n):
    x, w, b = normal(rows, k), normal(k, n), normal(n)
    nodes = [h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("Add", ["a", "b"], ["y"])]
    return nodes, {"x": x}, {"w": w, "b": b}, x @ w + b, 1


def gated(rows, k, n):
    """A norm before a gate and what it gates, and the sum that adds to the input: two launches."""
    x, g, u, v, w = normal(1, rows, k), normal(k), normal(k, n), normal(k, n), normal(n, k)
    e = np.float32(1e-5)
    nodes = [h.make_node(*a) for a in [
        ("Mul", ["x", "x"], ["q"])]] + [h.make_node("ReduceMean", ["q"], ["m"], axes=[-1])] + [h.make_node(*a) for a in [
            ("Add", ["m", "e"], ["me"]), ("Sqrt", ["me"], ["r"]), ("Div", ["x", "r"], ["d"]), ("Mul", ["d", "g"], ["z"]),
            ("MatMul", ["z", "u"], ["a"]), ("MatMul", ["z", "v"], ["b"]), ("Sigmoid", ["a"], ["s"]),
            ("Mul", ["s", "a"], ["t"]), ("Mul", ["t", "b"], ["c"]), ("MatMul", ["c", "w"], ["o"]),
            ("Add", ["o", "x"], ["y"])]]
    z = (x / np.sqrt((x * x).mean(-1, keepdims=True) + e) * g).astype(np.float64)
    a = z @ u
    return nodes, {"x": x}, {"e": e, "g": g, "u": u, "v": v, "w": w}, a / (1 + np.exp(-a)) * (z @ v) @ w + x, 2


def nibbles(rows, k, n, level):
    """Four bits a weight in blocks of 32, with zero points; level 4 rounds the rows to bytes, too."""
    x, b = normal(rows, k), rng.integers(0, 256, (n, k // 32, 16)).astype(np.uint8)
    s, z = np.abs(normal(n * k // 32)) + 0.1, rng.integers(0, 256, n * k // 64).astype(np.uint8)
    q = np.stack([b & 15, b >> 4], -1).reshape(n, k // 32, 32).astype(np.float32)
    zero = np.stack([z & 15, z >> 4], -1).reshape(n, k // 32, 1)
    w = ((q - zero) * s.reshape(n, k // 32, 1)).reshape(n, k)
    r = x
    if level == 4:
        blocks = x.reshape(rows, k // 32, 32)
        most = np.abs(blocks).max(-1, keepdims=True)
        r = (np.rint(blocks * (np.float32(127) / most)) * (most / np.float32(127))).reshape(rows, k)
    node = h.make_node("MatMulNBits", ["x", "b", "s", "z"], ["y"], domain="com.microsoft", K=k, N=n, bits=4,
                       block_size=32, accuracy_level=level)
    return [node], {"x": x}, {"b": b, "s": s, "z": z}, r.astype(np.float64) @ w.T, 1


def bytes_scaled(rows, k, n):
    x, w, s = normal(rows, k), rng.integers(-128, 128, (k, n)).astype(np.int8), np.abs(normal(n)) + 0.1
    nodes = [h.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1), h.make_node("MatMul", ["x", "d"], ["y"])]
    return nodes, {"x": x}, {"w": w, "s": s}, x.astype(np.float64) @ (w * s), 1


PRODUCTS = {"row": (plain, 1, 96, 130), "rows3": (plain, 3, 500, 77), "rows8": (plain, 8, 96, 130),
            "gated": (gated, 1, 256, 192), "gated4": (gated, 4, 128, 68),
            "nibbles": (nibbles, 1, 128, 96, 0), "nibbles3": (nibbles, 3, 192, 70, 0),
            "nibbles_bytes": (nibbles, 1, 192, 97, 4), "nibbles_bytes5": (nibbles, 5, 128, 64, 4),
            "bytes": (bytes_scaled, 2, 128, 96)}


def product(tcc, tmp, device, case, *options):
    nodes, inputs, consts, want, launches = case[0](*case[1:])
    save(f"{tmp}/m.onnx", nodes, {n: a.shape for n, a in inputs.items()}, consts, ["y"])
    classes = schedules(tcc, tmp, device, *options)
    if len(classes) != launches or not all(c.startswith("class=few") for c in classes):
        return f"kernels {classes}, not {launches} of few rows"
    error = off(outputs(tcc, tmp, f"{tmp}/m.onnx", inputs, 1, "--target", device, *options), [want])
    return f"off by {error:.1e}" if not error < (2e-3 if options else 4e-6) else None


# --- attention of few rows ------------------------------------------------------------------------------

def attention(tcc, tmp, device, heads, shared, rows, depth, columns, masked, pasts, *options):
    """Queries of `heads` heads, of which heads / shared have the same keys and values; any number of keys."""
    n = Layer()
    q = {"q": [1, heads, rows, depth], "k": [1, shared, "keys", depth], "v": [1, shared, "keys", columns]}
    if masked:
        q["mask"] = [1, 1, rows, "keys"]

    def spread(x, width):
        if heads == shared:
            return x
        y = n("Expand", n("Unsqueeze", x, np.array([2])), np.array([1, shared, heads // shared, 1, width]))
        return n("Reshape", y, np.array([1, heads, -1, width]))
    s = n("Mul", n("MatMul", "q", n("Transpose", spread("k", depth), perm=[0, 1, 3, 2])), np.float32(depth ** -0.5))
    s = n("Add", s, "mask") if masked else s
    y = n("Transpose", n("MatMul", n("Softmax", s, axis=-1), spread("v", columns)), perm=[0, 2, 1, 3])
    save(f"{tmp}/m.onnx", n.nodes, q, n.consts, [y])
    classes = schedules(tcc, tmp, device, *options)
    if len(classes) > 2 or not classes[0].startswith("class=decode"):
        return f"kernels {classes}"
    info = json.loads(call([tcc, "inspect", f"{tmp}/m.onnx", "--target", device, "--json", *options]))
    if any(k.get("spills") for k in info["kernels"]):
        return f"spills: {info['kernels']}"
    for past in pasts:
        inputs = {k: normal(*(past if d == "keys" else d for d in a)) * 2 for k, a in q.items()}
        if masked:
            inputs["mask"][..., rng.random(past) < 0.5] = -np.inf
            inputs["mask"][..., past // 2] = 0
        got = outputs(tcc, tmp, f"{tmp}/m.ir", inputs, 1)
        k, v = (inputs[c].astype(np.float64).repeat(heads // shared, 1) for c in "kv")
        x = inputs["q"] @ k.swapaxes(2, 3) * depth ** -0.5 + inputs.get("mask", 0)
        e = np.exp(x - x.max(-1, keepdims=True))
        error = off(got, [(e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)])
        if not error < (2e-3 if options else 4e-6):
            return f"{past} keys: off by {error:.1e}"
    return None


LENGTHS = (1, 9, 64, 65, 200, 700)
ATTENTIONS = {"heads": (3, 3, 1, 64, 64, False, LENGTHS), "shared": (8, 2, 1, 128, 128, False, LENGTHS),
              "masked": (6, 2, 1, 64, 64, True, LENGTHS), "rows": (2, 2, 5, 40, 24, True, LENGTHS),
              "odd": (2, 1, 3, 18, 7, True, (5, 130)), "narrow": (4, 4, 1, 16, 24, False, (9, 40)),
              "wide": (2, 2, 1, 256, 256, False, (90,)), "eight": (8, 1, 1, 128, 128, False, (130,))}


# --- a layer ------------------------------------------------------------------------------------------

HIDDEN, HEADS, SHARED, SIZE, WIDE = 128, 4, 2, 32, 192


class Layer:
    """Norm, products, rotation, appended caches, grouped attention, residuals, gate."""

    def __init__(self):
        self.nodes, self.consts = [], {}

    def __call__(self, op, *args, **attrs):
        names = []
        for a in args:
            if not isinstance(a, str):
                self.consts[f"c{len(self.consts)}"] = np.asarray(a)
                a = f"c{len(self.consts) - 1}"
            names.append(a)
        self.nodes.append(h.make_node(op, names, [f"v{len(self.nodes)}"], **attrs))
        return f"v{len(self.nodes) - 1}"

    def norm(self, x):
        m = self("ReduceMean", self("Mul", x, x), axes=[-1])
        return self("Mul", self("Div", x, self("Sqrt", self("Add", m, np.float32(1e-5)))), normal(HIDDEN))

    def heads(self, x, n):
        return self("Transpose", self("Reshape", x, np.array([1, 1, n, SIZE])), perm=[0, 2, 1, 3])

    def rotated(self, x):
        low = self("Slice", x, np.array([0]), np.array([SIZE // 2]), np.array([3]))
        high = self("Slice", x, np.array([SIZE // 2]), np.array([SIZE]), np.array([3]))
        turned = self("Concat", self("Neg", high), low, axis=-1)
        return self("Add", self("Mul", x, "cos"), self("Mul", turned, "sin"))

    def repeated(self, x):
        y = self("Unsqueeze", x, np.array([2]))
        y = self("Expand", y, np.array([1, SHARED, HEADS // SHARED, 1, SIZE]))
        return self("Reshape", y, np.array([1, HEADS, -1, SIZE]))

    def build(self, x):
        z = self.norm(x)
        q, k, v = (self("MatMul", z, normal(HIDDEN, n * SIZE) * 0.2) for n in (HEADS, SHARED, SHARED))
        q, k = self.rotated(self.heads(q, HEADS)), self.rotated(self.heads(k, SHARED))
        keys = self("Concat", "keys", k, axis=2)
        values = self("Concat", "values", self.heads(v, SHARED), axis=2)
        s = self("MatMul", q, self("Transpose", self.repeated(keys), perm=[0, 1, 3, 2]))
        p = self("Softmax", self("Mul", s, np.float32(SIZE ** -0.5)), axis=-1)
        o = self("Transpose", self("MatMul", p, self.repeated(values)), perm=[0, 2, 1, 3])
        o = self("MatMul", self("Reshape", o, np.array([1, 1, HEADS * SIZE])), normal(HEADS * SIZE, HIDDEN) * 0.2)
        x = self("Add", x, o)
        z = self.norm(x)
        a, b = (self("MatMul", z, normal(HIDDEN, WIDE) * 0.2) for _ in "ab")
        c = self("Mul", self("Mul", self("Sigmoid", a), a), b)
        return self("Add", x, self("MatMul", c, normal(WIDE, HIDDEN) * 0.2)), keys, values


LAUNCHES = 7


def read_again(tcc, tmp):
    """The parts of keys are found in the text of their tensors."""
    call([tcc, "compile", f"{tmp}/m.onnx", "--target", "sm_80", "--stop-after", "group", "--emit", "ir", "--stage", "tensor",
          "-o", f"{tmp}/t.ir"])
    call([tcc, "compile", f"{tmp}/t.ir", "--target", "sm_80", "--emit", "ir", "--stage", "loop", "-o", f"{tmp}/l.ir"])
    n = open(f"{tmp}/l.ir").read().count("class=decode")
    return f"{n} kernels of parts of keys" if n != 1 else None


def layer(tcc, tmp):
    n = Layer()
    results = n.build("x")
    shapes = {"x": [1, 1, HIDDEN], "cos": [1, 1, 1, SIZE], "sin": [1, 1, 1, SIZE],
              "keys": [1, SHARED, "past", SIZE], "values": [1, SHARED, "past", SIZE]}
    save(f"{tmp}/m.onnx", n.nodes, shapes, n.consts, results)
    classes = schedules(tcc, tmp, "sm_80")
    if len(classes) > LAUNCHES:
        return f"{len(classes)} launches, not {LAUNCHES}: {classes}"
    for past in 1, 7, 130:
        inputs = {k: normal(*(past if d == "past" else d for d in s)) for k, s in shapes.items()}
        got = outputs(tcc, tmp, f"{tmp}/m.ir", inputs, 3)
        call([tcc, "run", f"{tmp}/m.onnx", "--target", "c", "--output-dir", f"{tmp}/c"]
             + [w for k in inputs for w in ("--input", f"{k}={tmp}/{k}.npy")])
        error = off(got, [np.load(f"{tmp}/c/output_{i}.npy") for i in range(3)])
        if not error < 1e-5:
            return f"after {past} keys off by {error:.1e}"
    return None


# --- memory's speed -----------------------------------------------------------------------------------

SHARE = 0.85


def speed(tcc, tmp, *options):
    k, n = 2048, 4096
    w = np.zeros((k, n), np.float32) + rng.standard_normal(n).astype(np.float32)
    save(f"{tmp}/m.onnx", [h.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, k]}, {"w": w}, ["y"])
    r, = json.loads(call([tcc, "profile", f"{tmp}/m.onnx", "--target", "sm_80", "--json", *options]))["kernels"]
    share = k * n * (2 if options else 4) / DRAM / (r["predicted_us"] - LAUNCH)
    if share < SHARE or r["sector_ratio"] > 1.1 or r["wavefront_ratio"] > 1.1:
        return f"{share:.2f} of memory's speed: {r}"
    return None


def cache_speed(tcc, tmp, *options):
    """Keys and values once for all heads that share them, whatever their number."""
    n = Layer()
    keys, shared, heads, size = 4096, 4, 16, 128
    q = {"q": [1, heads, 1, size], "k": [1, shared, keys, size], "v": [1, shared, keys, size]}

    def spread(x):
        y = n("Expand", n("Unsqueeze", x, np.array([2])), np.array([1, shared, heads // shared, 1, size]))
        return n("Reshape", y, np.array([1, heads, -1, size]))
    s = n("MatMul", "q", n("Transpose", spread("k"), perm=[0, 1, 3, 2]))
    save(f"{tmp}/m.onnx", n.nodes, q, n.consts, [n("MatMul", n("Softmax", s, axis=-1), spread("v"))])
    parts, combined = json.loads(call([tcc, "profile", f"{tmp}/m.onnx", "--target", "sm_80", "--json", *options]))["kernels"]
    compulsory = 2 * shared * keys * size * 4
    share = compulsory / DRAM / (parts["predicted_us"] - LAUNCH)
    if share < 0.7 or parts["bytes"] > 1.1 * compulsory or combined["predicted_us"] > 2 * LAUNCH:
        return f"{share:.2f} of memory's speed, {parts['bytes'] / compulsory:.2f} of compulsory bytes: {parts} {combined}"
    return None


def main():
    tcc, tmp = sys.argv[1:3]
    half = ["--precision", "f16"]
    tests = {f"{name} {d}": (lambda d=d, c=c: product(tcc, tmp, d, c)) for name, c in PRODUCTS.items()
             for d in (DEVICES if name in ("gated", "nibbles_bytes5") else DEVICES[:1])}
    tests |= {f"attention {name} {d}": (lambda d=d, c=c: attention(tcc, tmp, d, *c)) for name, c in ATTENTIONS.items()
              for d in (DEVICES if name in ("masked", "rows") else DEVICES[:1])}
    tests |= {"attention f16": lambda: attention(tcc, tmp, "sm_80", *ATTENTIONS["shared"], *half)}
    tests |= {"row f16": lambda: product(tcc, tmp, "sm_80", PRODUCTS["row"], *half),
              "layer": lambda: layer(tcc, tmp) or read_again(tcc, tmp), "speed f32": lambda: speed(tcc, tmp),
              "speed f16": lambda: speed(tcc, tmp, *half), "speed of caches": lambda: cache_speed(tcc, tmp)}
    passed = 0
    for name, test in tests.items():
        fault = test()
        passed += not fault
        if fault:
            print(f"FAIL {name}: {fault}")
    print(f"{passed} passed, {len(tests) - passed} failed, 0 skipped")
    return passed < len(tests)


sys.exit(main())
