"""Bytes and sectors of global memory that a model's kernels move on simulated sm_80, held to what
the algorithm needs, and the outputs to numpy's or onnxruntime's.

usage: traffic.py TCC-ML FOLDER
"""
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


def simulate(tcc, tmp, model, inputs):
    """-> (output, the kernels' lines of counters)"""
    args = [tcc, "run", f"{tmp}/m.onnx", "--target", "sm_80", "--simulate", "-v", "--output-dir", tmp]
    onnx.save(model, f"{tmp}/m.onnx")
    for n, a in inputs.items():
        np.save(f"{tmp}/{n}.npy", a)
        args += ["--input", f"{n}={tmp}/{n}.npy"]
    r = subprocess.run(args, capture_output=True, text=True)
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


def main():
    tcc, tmp = sys.argv[1:]
    ok = [check(tcc, tmp, name) for name in CASES | LARGER]
    print(f"{sum(ok)} passed, {len(ok) - sum(ok)} failed, 0 skipped")
    return 0 if all(ok) else 1


sys.exit(main())
