"""The machine code of a fixed list of kernels: exactly as many matrix instructions, reads of fragments and
asynchronous copies as the tile has, nothing spilled; what AMD's metadata say. NVIDIA's by nvdisasm (PyPI), AMD's by
llvm-objdump and llvm-readelf.

usage: sass.py TCC-ML FOLDER
"""
import glob
import os
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h
from onnx import numpy_helper as nh

# name: operator, shapes of operands (a constant last), type, attributes
KERNELS = {
    "square": ("MatMul", [[2048, 2048], [2048, 2048]], P.FLOAT16, {}),
    "tall": ("MatMul", [[8192, 1024], [1024, 64]], P.FLOAT16, {}),
    "dense": ("MatMul", [[4096, 3072], [3072, 768]], P.FLOAT16, {}),
    "few": ("MatMul", [[64, 2048], [2048, 768]], P.FLOAT16, {}),
    "conv": ("Conv", [[8, 128, 28, 28], [128, 128, 3, 3]], P.FLOAT16, {"pads": [1] * 4}),
    "bytes": ("MatMulInteger", [[512, 2048], [2048, 512]], P.INT8, {}),
}
STATIC = 32 << 10      # bytes of shared memory up to which it is not asked for at the launch
TARGETS = "sm_75", "sm_80", "sm_86", "sm_90", "gfx90a", "gfx942"
# rows, columns, depth of an instruction; its bytes of an element; what the disassembler calls it
SHAPES = {"m16n8k16_f16": (16, 8, 16, 2, r"HMMA\.16816"), "m16n8k8_f16": (16, 8, 8, 2, r"HMMA\.1688"),
          "m16n8k32_s8": (16, 8, 32, 1, r"IMMA\.16832"), "m8n8k16_s8": (8, 8, 16, 1, r"IMMA\.8816"),
          "mfma_16x16x16_f16": (16, 16, 16, 2, r"v_mfma_f32_16x16x16"), "mfma_16x16x16_i8": (16, 16, 16, 1, r"v_mfma_i32_16x16x16"),
          "mfma_16x16x32_i8": (16, 16, 32, 1, r"v_mfma_i32_16x16x32")}


def save(path, name):
    op, shapes, dtype, attributes = KERNELS[name]
    data = nh.from_array(np.ones(shapes[1], np.int8 if dtype == P.INT8 else np.float16), "w")
    graph = h.make_graph([h.make_node(op, ["x", "w"], ["y"], **attributes)], name,
                         [h.make_tensor_value_info("x", dtype, shapes[0])],
                         [h.make_tensor_value_info("y", P.INT32 if dtype == P.INT8 else dtype, None)], [data])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def compile_(tcc, tmp, target, kind, out):
    r = subprocess.run([tcc, "compile", f"{tmp}/m.onnx", "--target", target, "--emit", kind, "-o", out],
                       capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"exit {r.returncode}: {r.stdout}{r.stderr}")


def said(tool, *args):
    return subprocess.run([tool, *args], capture_output=True, text=True, check=True).stdout


def schedule(text):
    """of the one kernel on matrix units: (name, tile, warps, stages, units of A and B, its shared bytes, its name)"""
    k = next(k for k in text.split("\nkernel ") if "mma=" in k)
    name = re.search(r"mma=(\w+)", k)[1]
    numbers = [list(map(int, re.search(rf"{f}=\[([\d,]+)\]", k)[1].split(","))) for f in ("block", "warps")]
    units = re.search(r"units=\[(\d+)( async)?,(\d+)( async)?\]", k)
    return (name, *numbers, int(re.search(r"stages=(\d+)", k)[1]),
            [(int(units[1]), bool(units[2])), (int(units[3]), bool(units[4]))], int(re.search(r"\tshared (\d+)", k)[1]),
            re.search(r'"(\w+)"', k)[1])


def expected(plan, warp):
    """Instructions of a thread: matrix, fragments of 512 bytes, asynchronous copies"""
    name, (bm, bn, bk), (wm, wn), stages, units, *_ = plan
    m, n, k, size, _ = SHAPES[name]
    matrix = (bm // wm // m) * (bn // wn // n) * (bk // k)
    reads = (bm // wm + bn // wn) * bk * size // (16 * 32)
    copies = sum(-(-rows * bk * size // unit // (wm * wn * warp)) for rows, (unit, on) in zip((bm, bn), units) if on)
    return matrix, reads, copies * stages


def count(pattern, code):
    return len(re.findall(r"\b" + pattern, code))


def nvidia(tool, tcc, tmp, target, plan):
    compile_(tcc, tmp, target, "cubin", f"{tmp}/m.cubin")
    code = said(tool, "-c", f"{tmp}/m.cubin")
    matrix, reads, copies = expected(plan, 32)
    found = count(SHAPES[plan[0]][4], code), count("LDSM", code), count("LDGSTS", code)
    times = found[0] // matrix        # the compiler may write the step out several times
    if found[0] != times * matrix or not 1 <= times <= 4:
        yield f"{found[0]} matrix instructions, not {matrix}"
    if found[1] != times * reads:
        yield f"{found[1]} reads of fragments, not {times * reads}"
    if found[2] != copies + (times - 1) * copies // plan[3]:
        yield f"{found[2]} asynchronous copies, not {copies}"
    if count("(?:LDL|STL)", code):
        yield "local memory"


def amd(tcc, tmp, target, plan):
    compile_(tcc, tmp, target, "hsaco", f"{tmp}/m.hsaco")
    code, notes = said("llvm-objdump-22", "-d", f"{tmp}/m.hsaco"), said("llvm-readelf-22", "--notes", f"{tmp}/m.hsaco")
    about = next((x for x in re.split(r"\n  - ", notes) if re.search(rf"\.name:\s+{plan[6]}\n", x)), "")
    matrix, _, _ = expected(plan, 64)
    found = count(SHAPES[plan[0]][4], code)
    if not about:
        yield f"no kernel {plan[6]}"
        return
    fields = {k: int(v) for k, v in re.findall(r"\.(\w+):\s+(\d+)", about)}
    if plan[5] <= STATIC and fields["group_segment_fixed_size"] != plan[5]:
        yield f"{fields['group_segment_fixed_size']} bytes of LDS, not {plan[5]}"
    if not found or found % matrix:        # the compiler may write the step out many times
        yield f"{found} matrix instructions, not {matrix}"
    for f in "vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size":
        if fields[f]:
            yield f"{f} {fields[f]}"
    if fields["vgpr_count"] > 256 or fields["sgpr_count"] > 104:
        yield f"{fields['vgpr_count']} vector, {fields['sgpr_count']} scalar registers"


def main():
    tcc, tmp = sys.argv[1:]
    tools = glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/nvidia/*/bin/nvdisasm"))
    passed = failed = skipped = 0
    for target in TARGETS:
        if target.startswith("sm_") and not tools:
            print(f"{target}: no nvdisasm")
            skipped += 1
            continue
        for name in KERNELS:
            if target == "gfx90a" and name == "bytes":
                continue
            save(f"{tmp}/m.onnx", name)
            compile_(tcc, tmp, target, "ir", f"{tmp}/m.ir")
            plan = schedule(open(f"{tmp}/m.ir").read())
            faults = list(nvidia(tools[0], tcc, tmp, target, plan) if tools and target.startswith("sm_")
                          else amd(tcc, tmp, target, plan))
            print(f"{target} {name} {plan[:4]}: {', '.join(faults) or 'ok'}")
            failed += bool(faults)
            passed += not faults
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


sys.exit(main())
