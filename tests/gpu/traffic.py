"""Bytes and sectors of global memory that a model's kernels move on simulated sm_80, held to what
the algorithm needs, and the outputs to numpy's or onnxruntime's.

usage: traffic.py TCC-ML FOLDER
"""
import os
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as P
from onnx import helper as h
from onnx import numpy_helper as nh

SECTORS = 1.15
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def tiles(m, n, k):
    """Bytes that 64 x 64 tiles of an m x n product of depth k read."""
    return -(-m // 64) * -(-n // 64) * (64 + 64) * k * 4


# name: node, inputs, constants, bytes read at most
CASES = {
    "matmul": (h.make_node("MatMul", ["a", "b"], ["y"]),
               {"a": normal(512, 512), "b": normal(512, 512)}, {}, 1.1 * tiles(512, 512, 512)),
    "conv": (h.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4), {"x": normal(1, 64, 56, 56)},
             {"w": normal(64, 64, 3, 3), "b": normal(64)}, 1.1 * tiles(56 * 56, 64, 64 * 9)),
    "softmax": (h.make_node("Softmax", ["x"], ["y"]), {"x": normal(64, 1024)}, {}, 64 * 1024 * 4),
    "layernorm": (h.make_node("LayerNormalization", ["x", "s", "b"], ["y"]), {"x": normal(64, 1024)},
                  {"s": normal(1024), "b": normal(1024)}, (64 + 2 * 64) * 1024 * 4),
    "transpose": (h.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1]), {"x": normal(2, 96, 160)}, {},
                  2 * 96 * 160 * 4),
    "concat": (h.make_node("Concat", ["a", "b"], ["y"], axis=-1),
               {"a": normal(128, 64), "b": normal(128, 24)}, {}, 128 * 88 * 4),
}


# the same, of several kernels: node, inputs, constants, bytes read at most
LARGER = {
    # the axis twice, for what comes before and itself; and the totals of its blocks
    "cumsum": (h.make_node("CumSum", ["x", "a"], ["y"]), {"x": normal(8, 4096)}, {"a": np.array(1)},
               3.1 * 8 * 4096 * 4),
    # keys once, places once; k of each
    "topk": (h.make_node("TopK", ["x", "k"], ["v", "y"]), {"x": normal(4, 2048)}, {"k": np.array([8])},
             4 * (2048 * (4 + 8) + 8 * 24)),
    "nonzero": (h.make_node("NonZero", ["x"], ["y"]), {"x": normal(64, 64).round()}, {},
                64 * 64 * 32),   # counts, their sums, flags and places
}


def build(node, inputs, constants):
    ports = [h.make_tensor_value_info(n, P.FLOAT, a.shape) for n, a in inputs.items()]
    graph = h.make_graph([node], "g", ports, [h.make_empty_tensor_value_info("y")],
                         [nh.from_array(a, n) for n, a in constants.items()])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)


def simulate(tcc, tmp, model, inputs, l2=0, blocks=0):
    """-> (output, the kernels' lines of counters); l2: bytes of the second cache, blocks: that run at once"""
    args = [tcc, "run", f"{tmp}/m.onnx", "--target", "sm_80", "--simulate", "-v", "--output-dir", tmp]
    onnx.save(model, f"{tmp}/m.onnx")
    for n, a in inputs.items():
        np.save(f"{tmp}/{n}.npy", a)
        args += ["--input", f"{n}={tmp}/{n}.npy"]
    env = dict(os.environ, TCC_SIM_L2=str(l2), TCC_SIM_BLOCKS=str(blocks)) if l2 else None
    r = subprocess.run(args, capture_output=True, text=True, env=env)
    if r.returncode:
        raise SystemExit(f"exit {r.returncode}: {r.stdout}{r.stderr}")
    return np.load(f"{tmp}/output_0.npy"), re.findall(r"^\S+: launches .*", r.stdout + r.stderr, re.M)


def check(tcc, tmp, name):
    node, inputs, constants, most = (CASES | LARGER)[name]
    model = build(node, inputs, constants)
    got, lines = simulate(tcc, tmp, model, inputs)
    want = ort.InferenceSession(model.SerializeToString()).run(None, inputs)[0]
    read = sum(int(re.search(r"read (\d+) B", x)[1]) for x in lines)
    written = sum(int(re.search(r"written (\d+) B", x)[1]) for x in lines)
    sectors = [float(s) for x in lines for s in re.findall(r"sectors ([\d.]+)", x)]
    faults = [f"reads {read} B, at most {most:.0f} are needed"] * (read > most)
    if name in CASES:
        faults += [f"writes {written} B, not {got.nbytes}"] * (written != got.nbytes)
        faults += [f"sectors {max(sectors)} of ideal"] * (max(sectors) > SECTORS)
        faults += [f"{len(lines)} kernels, not 1"] * (len(lines) != 1)
    faults += ["wrong output"] * (not np.allclose(got, want, 1e-3, 1e-3))
    print(f"{name}: " + (", ".join(faults) or f"{read / most:.2f} of the bytes allowed, sectors {sectors}"))
    return not faults


# --- what memory moves, beyond the second cache -------------------------------------------------------

DRAM, L2, AT_ONCE = 1.1, 48 << 10, 16
ONCE = ["softmax", "layernorm", "transpose", "concat"]     # of CASES: each byte once
GROUP = 8                                                  # rows of tiles that are walked column by column


def moved(tcc, tmp, model, inputs):
    _, lines = simulate(tcc, tmp, model, inputs, L2, AT_ONCE)
    found = [re.search(r"memory reads (\d+) B writes (\d+) B", x) for x in lines]
    return sum(int(f[1]) for f in found), sum(int(f[2]) for f in found)


def planned(tcc, tmp, m, k, n):
    """Bytes that the blocks that run at once read of their rectangle's rows and columns, and the result's."""
    subprocess.run([tcc, "compile", f"{tmp}/m.onnx", "--target", "sm_80", "--emit", "ir", "-o", f"{tmp}/m.ir"], check=True)
    bm, bn, _ = map(int, re.search(r"mma=\w+, block=\[(\d+),(\d+),(\d+)\]", open(f"{tmp}/m.ir").read()).groups())
    tiles = [(first + t % high, t // high) for first in range(0, -(-m // bm), GROUP)
             for high in [min(GROUP, -(-m // bm) - first)] for t in range(high * -(-n // bn))]
    read = 0
    for w in range(0, len(tiles), AT_ONCE):
        rows, columns = (len(set(x)) for x in zip(*tiles[w:w + AT_ONCE]))
        read += (rows * bm + columns * bn) * k * 2
    return read, m * n * 2


def product(tcc, tmp):
    m, k, n = 1024, 256, 1024
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((m, k), (k, n)))
    graph = h.make_graph([h.make_node("MatMul", ["a", "b"], ["y"])], "g",
                         [h.make_tensor_value_info("a", P.FLOAT16, a.shape), h.make_tensor_value_info("b", P.FLOAT16, b.shape)],
                         [h.make_tensor_value_info("y", P.FLOAT16, None)])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    got = moved(tcc, tmp, model, {"a": a, "b": b})
    return got, planned(tcc, tmp, m, k, n)


def memory(tcc, tmp):
    """-> names of what moves more than planned"""
    for name in ONCE:
        node, inputs, constants, _ = CASES[name]
        model = build(node, inputs, constants)
        out = ort.InferenceSession(model.SerializeToString()).run(None, inputs)[0]
        yield name, moved(tcc, tmp, model, inputs), (sum(a.nbytes for a in [*inputs.values(), *constants.values()]), out.nbytes)
    yield "product", *product(tcc, tmp)


def check_memory(tcc, tmp):
    for name, got, want in memory(tcc, tmp):
        ratio = sum(got) / sum(want)
        print(f"{name}: memory moves {ratio:.3f} of what is planned" + ": too much" * (ratio > DRAM))
        yield ratio <= DRAM


def main():
    tcc, tmp = sys.argv[1:]
    ok = [check(tcc, tmp, name) for name in CASES | LARGER] + list(check_memory(tcc, tmp))
    print(f"{sum(ok)} passed, {len(ok) - sum(ok)} failed, 0 skipped")
    return 0 if all(ok) else 1


sys.exit(main())
