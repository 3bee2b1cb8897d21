"""Sums of products of f16, bf16, tf32 and bytes on simulated GPUs of every family: results held to numpy's,
odd and symbolic sizes included; that matrix units do them, with exactly as many instructions as the padded
shape has, without bank conflicts and with whole sectors where rows are aligned; that the IR reads back; and the same through PTX.

usage: mma.py TCC-ML FOLDER [all]
all: every case on every machine, which takes a minute
"""
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h
from onnx import numpy_helper as nh

from parts import tally

WAVEFRONTS, SECTORS = 1.05, 1.1
TARGETS = ["sm_75", "sm_80", "sm_90", "gfx90a", "gfx942", "gfx1100"]
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def tidy(x, bits):
    """Rounded to so many bits of fraction: what every type here holds."""
    m, e = np.frexp(x)
    return np.ldexp(np.round(m * 2**bits) / 2**bits, e).astype(np.float32)


def conv(x, w, pad=1, stride=1):
    n, c, hh, ww = x.shape
    v = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    oh, ow = (hh + 2 * pad - w.shape[2]) // stride + 1, (ww + 2 * pad - w.shape[3]) // stride + 1
    return sum(np.einsum("nchw,oc->nohw", v[:, :, i:i + oh * stride:stride, j:j + ow * stride:stride], w[:, :, i, j])
               for i in range(w.shape[2]) for j in range(w.shape[3]))


def product(m, k, n, const=True, symbol=False):
    a, b = tidy(normal(m, k), 6), tidy(normal(k, n), 6)
    nodes = [h.make_node("MatMul", ["a", "b"], ["p"]), h.make_node("Add", ["p", "c"], ["q"]),
             h.make_node("Relu", ["q"], ["y"])]
    c = tidy(normal(n), 6)
    feeds = {"a": (a, ["m" if symbol else m, k])}
    if not const:
        feeds["b"] = (b, ["k" if symbol else k, n])
        feeds["a"] = (a, ["m" if symbol else m, "k" if symbol else k])
    return nodes, feeds, {"c": c, **({"b": b} if const else {})}, np.maximum(a.astype(np.float64) @ b + c, 0)


def rows(m, k, n):
    """A long sum that a norm reads: its parts are added by the norm's kernel."""
    nodes, feeds, consts, y = product(m, k, n)
    nodes[-1].output[0] = "r"
    nodes.append(h.make_node("LpNormalization", ["r"], ["y"], p=1))
    return nodes, feeds, consts, y / np.abs(y).sum(-1, keepdims=True)


def attention(t):
    """Scores and values in heads: batches, a transposed factor, a symbolic depth."""
    q, k, v = (tidy(normal(2, 3, t, 16), 6) for _ in range(3))
    nodes = [h.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), h.make_node("MatMul", ["q", "kt"], ["s"]),
             h.make_node("Clip", ["s", "lo", "hi"], ["r"]), h.make_node("MatMul", ["r", "v"], ["y"])]
    s = np.clip(np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k), -2, 2)
    feeds = {n: (x, [2, 3, "t", 16]) for n, x in (("q", q), ("k", k), ("v", v))}
    return nodes, feeds, {"lo": np.float32(-2), "hi": np.float32(2)}, s @ v


def convolution(c, o, size, kernel, stride=1):
    x, w, b = tidy(normal(1, c, size, size), 6), tidy(normal(o, c, kernel, kernel), 6), tidy(normal(o), 6)
    nodes = [h.make_node("Conv", ["x", "w", "b"], ["p"], pads=[kernel // 2] * 4, strides=[stride] * 2),
             h.make_node("Relu", ["p"], ["y"])]
    y = conv(x, w, kernel // 2, stride) + b[:, None, None]
    return nodes, {"x": (x, list(x.shape))}, {"w": w, "b": b}, np.maximum(y, 0)


CASES = {
    "even": product(128, 96, 64, const=False),
    "odd": product(37, 45, 70),
    "symbolic": product(33, 40, 24, const=False, symbol=True),
    "long": rows(30, 3072, 70),
    "attention": attention(19),
    "conv3x3": convolution(32, 48, 9, 3),
    "stem": convolution(3, 16, 15, 7, 2),
}
STORED = {"f16": P.FLOAT16, "bf16": P.BFLOAT16}


def save(path, case, dtype):
    """The case in the type, or in f32 for tf32 and for bf16, whose operands the option rounds."""
    nodes, feeds, consts, _ = case
    t = P.FLOAT16 if dtype == "f16" else P.FLOAT
    np_t = np.float16 if dtype == "f16" else np.float32
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, t, d) for n, (_, d) in feeds.items()],
                         [h.make_tensor_value_info("y", t, None)],
                         [nh.from_array(np.asarray(a, np_t), n) for n, a in consts.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return np_t


def run(tcc, tmp, case, dtype, target, how="--simulate"):
    """-> (output, its kernels' counters)"""
    np_t = save(f"{tmp}/m.onnx", case, dtype)
    args = [tcc, "run", f"{tmp}/m.onnx", "--target", target, how, "-v", "--output-dir", tmp]
    args += [] if dtype == "f16" else ["--precision", dtype]
    for n, (a, _) in case[1].items():
        np.save(f"{tmp}/{n}.npy", a.astype(np_t))
        args += ["--input", f"{n}={tmp}/{n}.npy"]
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"{target} {dtype}: exit {r.returncode}: {r.stdout}{r.stderr}")
    return np.load(f"{tmp}/output_0.npy"), re.findall(r"^\S+: launches .*", r.stdout + r.stderr, re.M)


def instructions(lines):
    return sum(int(re.search(r"mma (\d+)", x)[1]) for x in lines)


def supported(dtype, target):
    return not (target == "sm_75" and dtype != "f16") and not (target[0] == "g" and dtype == "tf32")


# what a quick run does of them
QUICK = {("sm_80", "odd", "f16"), ("sm_80", "stem", "bf16"), ("sm_80", "long", "f16"), ("gfx942", "long", "bf16"), ("sm_80", "attention", "bf16"), ("sm_80", "conv3x3", "tf32"),
         ("sm_80", "symbolic", "f16"), ("sm_75", "attention", "f16"), ("sm_75", "conv3x3", "f16"),
         ("gfx90a", "odd", "bf16"), ("gfx942", "attention", "f16"), ("gfx942", "conv3x3", "f16"),
         ("gfx1100", "attention", "bf16"), ("gfx1100", "stem", "f16")}


def faults(tcc, tmp, name, dtype, target, how="--simulate"):
    got, lines = run(tcc, tmp, CASES[name], dtype, target, how)
    want = CASES[name][3]
    bound = {"f16": 2e-3, "bf16": 8e-3, "tf32": 2e-3}[dtype] * np.abs(want).max()
    wrong = ["wrong"] * (not np.all(np.abs(got - want) <= bound))
    wrong += ["no matrix instructions"] * (instructions(lines) == 0)
    return wrong + ["not two kernels"] * (name == "long" and len(lines) != 2 + (dtype == "bf16"))


# through the compiler's code, on each kind of machine that has one
THROUGH_PTX = {"sm_75": ("odd", "conv3x3"), "sm_80": ("symbolic", "stem"), "sm_86": ("even", "conv3x3"),
               "sm_89": ("attention", "stem"), "sm_90": ("odd", "conv3x3"), "sm_120": ("long", "stem")}


def through_ptx(tcc, tmp):
    for target, names in THROUGH_PTX.items():
        for name in names:
            if ALL or target in ("sm_75", "sm_90"):
                yield f"{target} {name} f16 PTX", faults(tcc, tmp, name, "f16", target, "--simulate=ptx")


def results(tcc, tmp):
    for target in TARGETS:
        for name in CASES:
            for dtype in ["f16", "bf16", "tf32"]:
                if not supported(dtype, target) or (not ALL and (target, name, dtype) not in QUICK):
                    continue
                yield f"{target} {name} {dtype}", faults(tcc, tmp, name, dtype, target)


def bytes_model(path, a, b, zero):
    graph = h.make_graph([h.make_node("MatMulInteger", ["a", "b", "z"], ["y"])], "g",
                         [h.make_tensor_value_info("a", h.np_dtype_to_tensor_dtype(a.dtype), ["m", a.shape[1]])],
                         [h.make_tensor_value_info("y", P.INT32, None)],
                         [nh.from_array(b, "b"), nh.from_array(np.asarray(zero, a.dtype), "z")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def integers(tcc, tmp):
    """Exact sums of bytes, of like and unlike signs; CDNA's units know signed ones only."""
    for target in "sm_75", "sm_80", "gfx90a", "gfx942", "gfx1100":
        for ta, tb in (np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8):
            if (target[:4] == "gfx9" and ta != np.int8) or (not ALL and ta == np.uint8 and tb == np.uint8):
                continue
            a = rng.integers(np.iinfo(ta).min, np.iinfo(ta).max + 1, (41, 77)).astype(ta)
            b = rng.integers(np.iinfo(tb).min, np.iinfo(tb).max + 1, (77, 50)).astype(tb)
            bytes_model(f"{tmp}/m.onnx", a, b, 3)
            np.save(f"{tmp}/a.npy", a)
            r = subprocess.run([tcc, "run", f"{tmp}/m.onnx", "--target", target, "--simulate", "-v", "--output-dir", tmp,
                                "--input", f"a={tmp}/a.npy"], capture_output=True, text=True)
            if r.returncode:
                raise SystemExit(f"{target}: exit {r.returncode}: {r.stdout}{r.stderr}")
            want = (a.astype(np.int32) - 3) @ b.astype(np.int32)
            faults = ["wrong"] * (not np.array_equal(np.load(f"{tmp}/output_0.npy"), want))
            faults += ["no matrix instructions"] * (not re.search(r"mma [1-9]", r.stdout + r.stderr))
            yield f"{target} {ta.__name__} {tb.__name__}", faults


# instruction's rows, columns, depth in f16
# (gfx1100 has both halves of a warp read the same rows: in two passes, as the simulator has it)
SHAPE = {"sm_75": (16, 8, 8), "sm_80": (16, 8, 16), "gfx942": (16, 16, 16), "gfx1100": (16, 16, 16)}


def counts(tcc, tmp):
    even = [(target, 256, 128, 256) for target in SHAPE]
    for target, m, k, n in even + [("sm_87", 640, 64, 768), ("sm_87", 768, 64, 640)]:    # 16 tiles for 16 units
        case, shape = product(m, k, n), SHAPE.get(target, SHAPE["sm_80"])
        got, lines = run(tcc, tmp, case, "f16", target)
        want = m * n * k // int(np.prod(shape))
        waves = float(re.search(r"wavefronts ([\d.]+)", lines[0])[1])
        sectors = max(float(s) for s in re.findall(r"sectors ([\d.]+)", lines[0]))
        faults = [f"{instructions(lines)} instructions, not {want}"] * (instructions(lines) != want)
        faults += [f"wavefronts {waves} of ideal"] * (waves > WAVEFRONTS and target != "gfx1100")
        faults += [f"sectors {sectors} of ideal"] * (sectors > SECTORS)
        faults += ["wrong"] * (not np.all(np.abs(got - case[3]) <= 2e-3 * case[3].max()))
        yield f"{target} {m} x {k} x {n} counts (wavefronts {waves}, sectors {sectors})", faults


def text(tcc, tmp):
    for target in SHAPE:
        save(f"{tmp}/m.onnx", CASES["odd"], "f16")
        one = [tcc, "compile", f"{tmp}/m.onnx", "--target", target, "--emit", "ir", "-o", f"{tmp}/a.ir"]
        subprocess.run(one, check=True)
        subprocess.run([tcc, "opt", f"{tmp}/a.ir", "--passes", "group", "-o", f"{tmp}/b.ir"], check=True)
        a, b = (open(f"{tmp}/{x}.ir").read() for x in "ab")
        yield f"{target} text", ["reads back as another"] * (a != b) + ["no mma"] * ("\tmma " not in a)


ALL = sys.argv[3:] == ["all"]


def main():
    tcc, tmp = sys.argv[1:3]
    return tally(part(tcc, tmp) for part in (results, through_ptx, integers, counts, text))


sys.exit(main())
