"""Attention on the matrix units of simulated GPUs of every family: results held to numpy's, with masks, groups
of heads, odd sizes; exactly as many matrix instructions as the padded shape has, no bank conflicts and whole
sectors where rows are aligned; the same through PTX.

usage: attention.py TCC-ML FOLDER [all]
all: every case on every machine, which takes minutes
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h

from parts import tally

TARGETS = "sm_75", "sm_80", "sm_90", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200"
rng = np.random.default_rng(0)


def case(heads, groups, rows, keys, depth, columns=None, bias=False, **attrs):
    shapes = {"q": (2, heads, rows, depth), "k": (2, groups, keys, depth), "v": (2, groups, keys, columns or depth)}
    feeds = {n: rng.standard_normal(s) for n, s in shapes.items()}
    if bias:
        feeds["b"] = rng.standard_normal((rows, keys))
    return feeds, attrs


CASES = {
    "even": case(2, 2, 64, 64, 64),
    "odd": case(1, 1, 37, 45, 24, 40),
    "causal": case(1, 1, 70, 70, 32, is_causal=1),
    "bias": case(1, 1, 20, 50, 80, bias=True),
    "softcap": case(1, 1, 33, 40, 48, softcap=2.0),
    "groups": case(8, 2, 3, 90, 64),
    "wide": case(1, 1, 33, 40, 256),
    "many": case(54, 27, 130, 70, 128),      # enough blocks for the largest tiles
    "long": case(54, 54, 130, 260, 64),
}
# enough blocks and keys for warp groups
GROUPED = {
    "groups odd": case(66, 66, 128, 130, 64),
    "groups even": case(66, 66, 128, 256, 128),
    "groups rows": case(57, 57, 150, 139, 128),
    "groups causal": case(66, 66, 200, 200, 64, is_causal=1),
    "groups bias": case(66, 66, 140, 150, 64, bias=True),
    "groups softcap": case(66, 66, 130, 190, 64, 128, softcap=2.0),
    "groups shared": case(66, 2, 130, 140, 128),
    "groups deep": case(66, 66, 130, 130, 192, 128),
}
CASES |= GROUPED
# what a quick run does of them
QUICK = {("sm_80", "even", "f16"), ("sm_80", "bias", "bf16"), ("sm_80", "softcap", "tf32"), ("sm_75", "causal", "f16"),
         ("sm_80", "groups", "f16"), ("sm_80", "wide", "f16"), ("sm_80", "many", "f16"), ("gfx942", "odd", "f16"), ("gfx90a", "causal", "bf16"),
         ("gfx950", "even", "f16"), ("gfx1100", "odd", "bf16"), ("gfx1200", "groups", "f16")}
# the compiler's code of these, on each kind of machine that has one
THROUGH_PTX = (("sm_75", "odd"), ("sm_80", "causal"), ("sm_86", "groups"), ("sm_89", "softcap"), ("sm_90", "bias"),
               ("sm_90a", "even"), ("sm_120", "odd"))


def expected(feeds, attrs):
    q, k, v = (feeds[n].astype(np.float64) for n in "qkv")
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]) + feeds.get("b", 0)
    if attrs.get("softcap"):
        s = attrs["softcap"] * np.tanh(s / attrs["softcap"])
    if attrs.get("is_causal"):
        s = np.where(np.arange(s.shape[-1]) <= np.arange(s.shape[-2])[:, None], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def run(tcc, tmp, name, dtype, target, how="--simulate"):
    feeds, attrs = CASES[name]
    t, np_t = (P.FLOAT16, np.float16) if dtype == "f16" else (P.FLOAT, np.float32)
    node = h.make_node("Attention", list(feeds), ["y"], **attrs)
    graph = h.make_graph([node], "g", [h.make_tensor_value_info(n, t, a.shape) for n, a in feeds.items()],
                         [h.make_tensor_value_info("y", t, None)])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 23)], ir_version=10), f"{tmp}/m.onnx")
    args = [tcc, "run", f"{tmp}/m.onnx", "--target", target, how, "-v", "--output-dir", tmp]
    args += [] if dtype == "f16" else ["--precision", dtype]
    for n, a in feeds.items():
        np.save(f"{tmp}/{n}.npy", a.astype(np_t))
        args += ["--input", f"{n}={tmp}/{n}.npy"]
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"{target} {name} {dtype}: exit {r.returncode}: {r.stdout}{r.stderr}")
    lines = re.findall(r"^\S+: launches .*", r.stdout + r.stderr, re.M)
    return np.load(f"{tmp}/output_0.npy"), [x for x in lines if not re.search(r"mma 0\b", x)]


def faults(tcc, tmp, name, dtype, target, how="--simulate", ran=None):
    got, lines = ran or run(tcc, tmp, name, dtype, target, how)
    want = expected(*CASES[name])
    bound = {"f16": 3e-3, "bf16": 2e-2, "tf32": 3e-3}[dtype] * np.abs(want).max()
    if not np.all(np.abs(got - want) <= bound):
        yield f"wrong by {np.abs(got - want).max()}"
    if len(lines) != 1:
        yield f"{len(lines)} kernels use matrix units"


def supported(dtype, target):
    return not (target == "sm_75" and dtype != "f16") and not (target[0] == "g" and dtype == "tf32")


def results(tcc, tmp, every):
    for target in TARGETS:
        for name in sorted(CASES.keys() - GROUPED):
            for dtype in "f16", "bf16", "tf32":
                wide = name == "wide" and target in ("sm_75", "gfx1100", "gfx1200")    # too few registers
                if supported(dtype, target) and not wide and (every or (target, name, dtype) in QUICK):
                    yield f"{target} {name} {dtype}", list(faults(tcc, tmp, name, dtype, target))
    for target, name in THROUGH_PTX:
        if every or target in ("sm_80", "sm_120"):
            yield f"{target} {name} PTX", list(faults(tcc, tmp, name, "f16", target, "--simulate=ptx"))


def grouped(tcc, tmp, every):
    """Products of warp groups, their second factors copied as boxes: by the source, and by the compiler's code."""
    for name in GROUPED:
        for dtype, how in ("f16", "--simulate"), ("f16", "--simulate=ptx"), ("bf16", "--simulate=fast"):
            if dtype == "bf16" and name != "groups rows" or not every and (name, how) != ("groups odd", "--simulate"):
                continue
            _, (line, *_) = got = run(tcc, tmp, name, dtype, "sm_90a", how)
            wrong = [f for f in faults(tcc, tmp, name, dtype, "sm_90a", how, got) if "kernels" not in f]
            waves = float(re.search(r"wavefronts ([\d.]+)", line)[1])
            wrong += ["no boxes"] * (not re.search(r"boxes [1-9]", line)) + [f"wavefronts {waves}"] * (waves > 1.2)
            yield f"sm_90a {name} {dtype} {how}", wrong


def machine_code(tcc, tmp, every):
    """Of the groups' kernel, by nvcc and nvdisasm where they are installed: products run beside what follows, and
    there are as many as the tiles have, each factor of 16 by 16 once; boxes bring the second ones."""
    tools = glob.glob(f"{sys.prefix}/lib/python*/site-packages/**/nvdisasm", recursive=True)
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        return
    profiled(tcc, tmp, "sm_90a", 2048, 128, P.FLOAT16)
    subprocess.run([tcc, "compile", f"{tmp}/m.onnx", "--target", "sm_90a", "--emit", "src", "-o", f"{tmp}/asrc"],
                   check=True, capture_output=True)
    r = subprocess.run([nvcc, "-cubin", "-arch=sm_90a", "--fmad=false", "-Xptxas", "-v", f"{tmp}/asrc/kernels.cu", "-o",
                        f"{tmp}/a.cubin"], capture_output=True, text=True)
    wrong = ["not compiled"] * bool(r.returncode) + ["products one after another"] * ("serialized" in r.stdout + r.stderr)
    if tools and not r.returncode:
        sass = subprocess.run([tools[0], f"{tmp}/a.cubin"], capture_output=True, text=True).stdout
        counts = {w: len(re.findall(w, sass)) for w in (r"HGMMA\.64x128x16", r"UTMALDG\.\dD", r"USETMAXREG")}
        wrong += [f"{counts}"] * (list(counts.values()) != [128 // 16 + 128 // 16, 4, 2])
    yield "sm_90a machine code" + ("" if tools else ", not disassembled"), wrong


def counts(tcc, tmp):
    """The even case's instructions of two products in each batch and head, its wavefronts and sectors."""
    for target, size in ("sm_75", 16 * 8 * 8), ("sm_80", 16 * 8 * 16), ("gfx942", 16**3):
        _, lines = run(tcc, tmp, "even", "f16", target)
        got, want = int(re.search(r"mma (\d+)", lines[0])[1]), 4 * 2 * 64**3 // size
        waves = float(re.search(r"wavefronts ([\d.]+)", lines[0])[1])
        sectors = max(float(s) for s in re.findall(r"sectors ([\d.]+)", lines[0]))
        wrong = [f"{got} instructions, not {want}"] * (got != want)
        wrong += [f"wavefronts {waves} of ideal"] * (waves > 1.05 and target[0] == "s")
        wrong += [f"sectors {sectors} of ideal"] * (sectors > 1.1)
        yield f"{target} counts (wavefronts {waves}, sectors {sectors})", wrong


SIZES = (1024, 64, P.FLOAT16), (2048, 128, P.FLOAT16), (300, 80, P.FLOAT16), (640, 15, P.FLOAT)  # rows and keys; depth
GATED = {(1024, "sm_80"), (2048, "sm_80"), (2048, "sm_90"), (2048, "sm_90a"), (2048, "gfx942"), (300, "gfx1100"), (640, "gfx1100"), (640, "gfx942")}


def profiled(tcc, tmp, target, n, depth, t, bias=False, **attrs):
    shapes = {x: [1, 12, n, depth] for x in "qkv"} | ({"b": [n, n]} if bias else {})
    graph = h.make_graph([h.make_node("Attention", list(shapes), ["y"], **attrs)], "g",
                         [h.make_tensor_value_info(x, t, s) for x, s in shapes.items()],
                         [h.make_tensor_value_info("y", t, None)])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 23)], ir_version=10), f"{tmp}/m.onnx")
    r = subprocess.run([tcc, "profile", f"{tmp}/m.onnx", "--target", target, "--json"], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"exit {r.returncode}: {r.stdout}{r.stderr}")
    return json.loads(r.stdout)["kernels"]


def gates(tcc, tmp, every):
    """What the vendors' compilers make of it at sizes as in models: no spills; one kernel where there are matrix units."""
    for target in ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_120", "gfx90a", "gfx942", "gfx1100", "gfx1200"]:
        for n, depth, t in SIZES:
            for kind in {}, {"is_causal": 1}, {"bias": True}:
                if not every and ((n, target) not in GATED or (len(kind) == 0) != (n == 2048)):
                    continue
                kernels = profiled(tcc, tmp, target, n, depth, t, **kind)
                yield (f"{target} {n} {depth} {kind} spills",
                       [f"{k['spills']:.0f} bytes" for k in kernels if k.get("spills")]
                       + ["scaled by kernels of their own"] * (len(kernels) > 1 and t == P.FLOAT16 and "bias" not in kind))


def main():
    tcc, tmp = sys.argv[1:3]
    every = sys.argv[3:] == ["all"]
    return tally((results(tcc, tmp, every), grouped(tcc, tmp, every), machine_code(tcc, tmp, every), counts(tcc, tmp), gates(tcc, tmp, every)))


sys.exit(main())
