"""Small networks on simulated GPUs, against onnxruntime.

usage: small.py TCC-ML FOLDER
"""
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper as h
from onnx import numpy_helper as nh

rng = np.random.default_rng(0)
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@case
def padded_gather():
    """A vector's guard protects the load in its address too."""
    nodes = [h.make_node("Gather", ["w", "ids"], ["g"]), h.make_node("Pad", ["g", "p"], ["y"])]
    return (nodes, {"ids": (np.array([3, -1, 0]), ["n"])},
            {"w": normal(5, 8), "p": np.array([1, 0, 2, 0])})


@case
def channel_statistics():
    """Rows whose neighbours in memory are neighbouring rows: channels last, statistics of a channel."""
    nodes = [h.make_node("Conv", ["x", "w"], ["c"]), h.make_node("GlobalAveragePool", ["c"], ["m"]),
             h.make_node("Mul", ["c", "m"], ["s"]), h.make_node("InstanceNormalization", ["s", "g", "b"], ["i"]),
             h.make_node("Conv", ["i", "v"], ["y"])]
    return (nodes, {"x": (normal(2, 3, 9, 11), ["n", 3, "h", "w"])},
            {"w": normal(20, 3, 1, 1), "g": normal(20), "b": normal(20), "v": normal(4, 20, 1, 1)})


@case
def long_sums():
    """Teams of threads take the steps of a long sum in turn; a norm's kernel adds the parts of one."""
    nodes = [h.make_node("Conv", ["x", "w"], ["c"], pads=[2] * 4, dilations=[2, 2]), h.make_node("Flatten", ["c"], ["f"]),
             h.make_node("MatMul", ["f", "b"], ["p"]), h.make_node("LpNormalization", ["p"], ["y"], p=1)]
    return (nodes, {"x": (normal(2, 75, 8, 8), ["n", 75, 8, 8])},
            {"w": normal(48, 75, 3, 3), "b": normal(3072, 70)})


@case
def many_teams():
    """Eight teams, whose tiles and sums together need more shared memory than the smallest machines have."""
    return ([h.make_node("MatMul", ["x", "w"], ["y"])],
            {"x": (normal(2, 3, 1536), ["b", "n", 1536])}, {"w": normal(1536, 384) / 40})


@case
def scatter_order():
    """Rows in parallel, and updates of one place in order."""
    nodes = [h.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)]
    return (nodes, {"x": (normal(300, 6), ["n", 6]), "i": (rng.integers(-6, 6, (300, 20)), ["n", 20]),
                    "u": (normal(300, 20), ["n", 20])}, {})


@case
def scatter_turns():
    """One column: updates of a chunk that meet take turns, last of all wins or all are summed in order."""
    nodes = [h.make_node("ScatterND", ["x", "i", "u"], ["a"]),
             h.make_node("ScatterND", ["a", "i", "u"], ["y"], reduction="add")]
    return (nodes, {"x": (normal(9, 7), [9, 7]), "i": (rng.integers(-7, 7, (600, 2)), ["n", 2]),
                    "u": (normal(600), ["n"])}, {})


@case
def sorted_rows():
    """Rows of unknown length, sorted in shared memory; ties keep their order."""
    nodes = [h.make_node("TopK", ["x", "k"], ["v", "y"])]
    return (nodes, {"x": (rng.integers(0, 200, (2, 700)).astype(np.float32), ["b", "n"])},
            {"k": np.array([300])})


@case
def counted_rows():
    """Rows that shared memory does not take."""
    nodes = [h.make_node("TopK", ["x", "k"], ["v", "y"], largest=0)]
    return nodes, {"x": (rng.integers(0, 900, (1, 2100)), ["b", "n"])}, {"k": np.array([99])}


@case
def sibling_products():
    """Products of one operand, of different widths: one product that their readers share out."""
    nodes = []
    for i, n in enumerate("qkv"):
        nodes += [h.make_node("MatMul", ["x", f"w{n}"], [f"m{n}"]), h.make_node("Add", [f"m{n}", f"b{n}"], [n])]
    nodes += [h.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), h.make_node("MatMul", ["q", "kt"], ["s"]),
              h.make_node("Softmax", ["s"], ["p"]), h.make_node("MatMul", ["p", "v"], ["y"])]
    return (nodes, {"x": (normal(2, 9, 40), ["b", "s", 40])},
            {f"{c}{n}": normal(*shape, d) for n, d in zip("qkv", (16, 16, 24))
             for c, shape in (("w", (40,)), ("b", ()))})


def build(nodes, inputs, constants):
    ports = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), dims)
             for n, (a, dims) in inputs.items()]
    graph = h.make_graph(nodes, "g", ports, [h.make_empty_tensor_value_info("y")],
                         [nh.from_array(a, n) for n, a in constants.items()])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)


def run(tcc, tmp, name, target):
    nodes, inputs, constants = CASES[name]()
    model = build(nodes, inputs, constants)
    arrays = {n: a for n, (a, _) in inputs.items()}
    want = ort.InferenceSession(model.SerializeToString()).run(None, arrays)[0]
    onnx.save(model, f"{tmp}/m.onnx")
    args = [tcc, "run", f"{tmp}/m.onnx", "--target", target, "--simulate", "--output-dir", tmp]
    for n, a in arrays.items():
        np.save(f"{tmp}/{n}.npy", a)
        args += ["--input", f"{n}={tmp}/{n}.npy"]
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        return f"exit {r.returncode}: {r.stdout[-500:]}{r.stderr[-500:]}"
    got = np.load(f"{tmp}/output_0.npy")
    if got.shape != want.shape or not np.allclose(got, want, 1e-4, 1e-5):
        return f"wrong output: {got}, want {want}"
    return None


def main():
    tcc, tmp = sys.argv[1:]
    failed = 0
    for name in CASES:
        for target in "sm_80", "gfx942":
            fault = run(tcc, tmp, name, target)
            failed += fault is not None
            print(f"{name} {target}: {fault or 'ok'}")
    print(f"{2 * len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
