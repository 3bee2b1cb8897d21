"""Products and convolutions by warp groups from boxes (wgmma, TMA) on a simulated sm_90a: results held to
numpy's, with exactly as many instructions and boxes as the schedule has; sizes that break the copies' rules at
run time take the other kernel; the same through PTX; plain sm_90 has none of it. The compiler's code has no spills, keeps the
products asynchronous, and holds the instructions (where nvcc and nvdisasm are installed).

usage: wgmma.py TCC-ML FOLDER
"""
import glob
import math
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h
from onnx import numpy_helper as nh

from parts import tally

rng = np.random.default_rng(0)


def small(*shape, high=3):
    return rng.integers(-high, high + 1, shape).astype(np.float16)


def product(m, k, n, dims=None, batch=(), transposed=False, t=P.FLOAT16):
    np_t = h.tensor_dtype_to_np_dtype(t)
    a, b = small(*batch, m, k).astype(np_t), small(*batch, *((n, k) if transposed else (k, n))).astype(np_t)
    op = "MatMul" if t == P.FLOAT16 else "MatMulInteger"
    nodes = [h.make_node("Transpose", ["b"], ["bt"], perm=[*range(len(batch)), len(batch) + 1, len(batch)])]
    nodes = nodes * transposed + [h.make_node(op, ["a", "bt" if transposed else "b"], ["y"])]
    y = a.astype(np.float64) @ (b.swapaxes(-1, -2) if transposed else b).astype(np.float64)
    dims = dims or ([*batch, m, k], list(b.shape))
    return nodes, {"a": (a, dims[0], t), "b": (b, dims[1], t)}, {}, y, t


def conv(x, w, pad, stride):
    v = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    o = (v.shape[2] - w.shape[2]) // stride + 1
    return sum(np.einsum("nchw,oc->nohw", v[:, :, i:i + o * stride:stride, j:j + o * stride:stride], w[:, :, i, j])
               for i in range(w.shape[2]) for j in range(w.shape[3]))


def convolution(n, c, o, size, kernel, stride):
    """Of what a product has left channels last."""
    x, u, w = small(n, 8, size, size, high=1), small(c, 8, 1, 1, high=1), small(o, c, kernel, kernel, high=1)
    w[rng.random(w.shape) < 0.75] = 0
    nodes = [h.make_node("Conv", ["x", "u"], ["t"]), h.make_node("Relu", ["t"], ["r"]),
             h.make_node("Conv", ["r", "w"], ["y"], pads=[kernel // 2] * 4, strides=[stride] * 2)]
    y = conv(np.maximum(conv(x, u, 0, 1), 0), w.astype(np.float64), kernel // 2, stride)
    return nodes, {"x": (x, list(x.shape), P.FLOAT16)}, {"u": u, "w": w}, y, P.FLOAT16


def symbolic(m, k, n):
    return product(m, k, n, (["m", "k"], ["k", "n"]))


CASES = {
    "product": product(1024, 128, 1024),
    "odd": product(1000, 200, 904),
    "transposed": product(384, 64, 384, batch=(6,), transposed=True),
    "bytes": product(1024, 256, 1024, transposed=True, t=P.INT8),
    "pixels": convolution(8, 64, 256, 60, 1, 2),
    "padded": convolution(4, 32, 256, 63, 3, 1),
    "aligned sizes": symbolic(136, 72, 264),
    "other sizes": symbolic(77, 33, 50),
}


def save(path, case):
    nodes, feeds, consts, _, t = case
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, t, d) for n, (_, d, t) in feeds.items()],
                         [h.make_tensor_value_info("y", t if t == P.FLOAT16 else P.INT32, None)],
                         [nh.from_array(a, n) for n, a in consts.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def run(tcc, tmp, case, target, how="--simulate"):
    """-> (output, counters by kernel, the schedules of warp groups)"""
    save(f"{tmp}/w.onnx", case)
    args = [tcc, "run", f"{tmp}/w.onnx", "--target", target, how, "-v", "--output-dir", tmp]
    for n, (a, *_) in case[1].items():
        np.save(f"{tmp}/{n}.npy", a)
        args += ["--input", f"{n}={tmp}/{n}.npy"]
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"{target}: exit {r.returncode}: {r.stdout}{r.stderr}")
    counts = [list(map(int, c)) for c in re.findall(r"mma (\d+) boxes (\d+)", r.stdout + r.stderr)]
    subprocess.run([tcc, "compile", f"{tmp}/w.onnx", "--target", target, "--emit", "ir", "-o", f"{tmp}/w.ir"], check=True)
    text = open(f"{tmp}/w.ir").read()
    subprocess.run([tcc, "opt", f"{tmp}/w.ir", "--passes", "group", "-o", f"{tmp}/w2.ir"], check=True)
    assert open(f"{tmp}/w2.ir").read().replace("w2.ir", "w.ir") == text, "the IR reads back as another"
    return np.load(f"{tmp}/output_0.npy"), counts, re.findall(r'schedule "(.*mma=wgmma.*)"', text)


def expected(schedule, case, depths):
    """Instructions and boxes of the kernel: tiles times steps."""
    m, n, bk = map(int, re.search(r"block=\[(\d+),(\d+),(\d+)\]", schedule).groups())
    y = case[3]
    rows, columns = (y.shape[-2], y.shape[-1]) if len(case[1]) == 2 else (y.shape[0] * y.shape[2] * y.shape[3], y.shape[1])
    if len(case[1]) == 1 and "boxes=[along" in schedule:     # the result lies along its pixels
        rows, columns = columns, rows
    batch = math.prod(y.shape[:-2]) if len(case[1]) == 2 else 1
    steps = batch * -(-rows // m) * -(-columns // n) * depths[0] * -(-depths[1] // bk)
    along = re.findall(r"(\w+) \d+[,\]]", schedule[schedule.index("boxes="):])
    boxes = sum(-(-w // 64) if kind == "along" else 1 for kind, w in zip(along, (m, n)))
    return [steps * (m // 64) * (bk // (32 if "s8" in schedule else 16)), steps * boxes]


def simulated(tcc, tmp):
    for name, case in CASES.items():
        y, counts, schedules = run(tcc, tmp, case, "sm_90a")
        faults = ["no warp groups"] * (not schedules)
        faults += [f"off by {np.abs(y - case[3]).max()}"] * (not np.array_equal(y.astype(np.float64), case[3]))
        depth = case[2]["w"].shape if "w" in case[2] else case[1]["a"][0].shape
        depths = (depth[2] * depth[3], depth[1]) if "w" in case[2] else (1, depth[-1])
        want = expected(schedules[0], case, depths) if schedules else None
        if name == "other sizes":
            faults += ["boxes where their rules do not hold"] * any(c[1] for c in counts)
        elif want not in counts:
            faults.append(f"instructions and boxes {counts}, not {want}")
        yield name, faults


THROUGH_PTX = {
    "odd": product(1000, 72, 904),
    "transposed": CASES["transposed"],
    "bytes": product(1024, 64, 1024, transposed=True, t=P.INT8),
    "pixels": CASES["pixels"],
    "padded": convolution(4, 16, 128, 41, 3, 1),
}


def through_ptx(tcc, tmp):
    """The compiler's code of the same, its inline assembly included: results and counts as from the source."""
    for name, case in THROUGH_PTX.items():
        y, counts, schedules = run(tcc, tmp, case, "sm_90a", "--simulate=ptx")
        faults = ["no warp groups"] * (not schedules)
        faults += [f"off by {np.abs(y - case[3]).max()}"] * (not np.array_equal(y.astype(np.float64), case[3]))
        source = run(tcc, tmp, case, "sm_90a")[1]
        faults += [f"instructions and boxes {counts}, from the source {source}"] * (counts != source)
        yield f"{name} through PTX", faults


def plain(tcc, tmp):
    y, counts, schedules = run(tcc, tmp, CASES["product"], "sm_90")
    yield "plain sm_90", ["has warp groups"] * bool(schedules or any(c[1] for c in counts))


def disassembler():
    found = [shutil.which("nvdisasm")] + glob.glob(f"{sys.prefix}/lib/python*/site-packages/**/nvdisasm", recursive=True)
    return next((f for f in found if f and os.access(f, os.X_OK)), None)


def compiled(tcc, tmp):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        return
    for name in "product", "bytes", "padded":
        save(f"{tmp}/w.onnx", CASES[name])
        subprocess.run([tcc, "compile", f"{tmp}/w.onnx", "--target", "sm_90a", "--emit", "src", "-o", f"{tmp}/wsrc"],
                       check=True, capture_output=True)
        r = subprocess.run([nvcc, "-x", "cu", "-cubin", "-arch=sm_90a", "--fmad=false", "-std=c++17", "--maxrregcount=255",
                            "-Xptxas", "-v", f"{tmp}/wsrc/kernels.cu", "-o", f"{tmp}/w.cubin"], capture_output=True, text=True)
        log = r.stdout + r.stderr
        faults = [log[-500:]] * bool(r.returncode) + ["spills"] * bool(re.search(r"[1-9]\d* bytes spill", log))
        faults += ["products one after another"] * ("serialized" in log)
        tool = disassembler()
        if tool and not r.returncode:
            sass = subprocess.run([tool, f"{tmp}/w.cubin"], capture_output=True, text=True).stdout
            want = ["IGMMA" if name == "bytes" else "HGMMA", "UTMALDG.4D.IM2COL" if name == "padded" else "UTMALDG.2D"]
            faults += [f"no {w}" for w in want if w not in sass]
        yield f"{name} compiled" + ("" if tool else ", not disassembled"), faults


def main():
    tcc, tmp = sys.argv[1:3]
    return tally(part(tcc, tmp) for part in (simulated, through_ptx, plain, compiled))


sys.exit(main())
