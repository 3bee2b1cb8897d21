#!/usr/bin/env python3
"""Compiles official operator tests for other CPUs, runs them under emulators and compares.

usage: cross.py [--count N] [--jobs J] [--tcc PATH] LIST ROOT

LIST names folders under ROOT (tests/backend/native.txt); for each machine, its share of N of them
are taken at even distances, among those whose inputs and outputs are plain numeric tensors. The
runtime is compiled once a machine: the first test as an archive, the others as objects that are
linked to it. A program runs under each of its machine's emulators.
"""
import argparse
import collections
import concurrent.futures
import glob
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

# share: of the tests wanted, one in so many
Machine = collections.namedtuple("Machine", "target cc emulators share")
RVV = "qemu-riscv64 -cpu rv64,v=true,vext_spec=v1.0,vlen="
MACHINES = [
    Machine("aarch64", "aarch64-linux-gnu-gcc", ["qemu-aarch64"], 1),
    Machine("aarch64+sve", "aarch64-linux-gnu-gcc", ["qemu-aarch64 -cpu max"], 4),
    Machine("riscv64", "riscv64-linux-gnu-gcc", ["qemu-riscv64"], 4),
    Machine("riscv64+v", "riscv64-linux-gnu-gcc", [RVV + "128", RVV + "256"], 1),
]
PLAIN = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.BOOL} | {
    getattr(onnx.TensorProto, s + b) for s in ("INT", "UINT") for b in ("8", "16", "32", "64")}
GLUE = """
typedef struct TccModel TccModel;
extern const TccModel model_tcc_model;
const TccModel *const tcc_main_model = &model_tcc_model;
"""


class EmulatorBug(Exception):
    pass


def command(args, what):
    r = subprocess.run(args, capture_output=True, text=True, timeout=300)
    # qemu 7.2 asserts so on RISC-V's narrowing conversions of floats
    if "decode_save_opc" in r.stderr:
        raise EmulatorBug(f"{what}: qemu's own assertion failed")
    if r.returncode:
        raise RuntimeError(f"{what}: {(r.stderr or r.stdout).strip()[-300:]}")


def plain(values):
    return all(v.type.HasField("tensor_type") and v.type.tensor_type.elem_type in PLAIN
               for v in values)


def load(path):
    t = onnx.TensorProto()
    with open(path, "rb") as f:
        t.ParseFromString(f.read())
    return numpy_helper.to_array(t)


def same(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind == "f":
        return np.allclose(got, want, rtol=1e-3, atol=1e-7, equal_nan=True)
    return np.array_equal(got, want)


def run_data(emulator, program, graph, data, out):
    args = []
    for i, v in enumerate(graph.input):
        if os.path.exists(f"{data}/input_{i}.pb"):
            args += ["--input", f"{v.name}={data}/input_{i}.pb"]
    command([*emulator.split(), program, *args, "--output-dir", out], emulator)
    for i, v in enumerate(graph.output):
        if not same(np.load(f"{out}/output_{i}.npy"), load(f"{data}/output_{i}.pb")):
            raise RuntimeError(f"{emulator}: output {v.name} differs")


def run_test(o, machine, lib, folder):
    """Raises what is wrong."""
    graph = onnx.load(f"{folder}/model.onnx").graph
    with tempfile.TemporaryDirectory() as tmp:
        command([o.tcc, "compile", f"{folder}/model.onnx", "--target", machine.target,
                 "--emit", "obj", "-o", f"{tmp}/m.o"], "compile")
        command([machine.cc, "-static", "-o", f"{tmp}/m", f"{tmp}/m.o", f"{lib}/glue.o",
                 "-Wl,-u,tcc_host_call", f"{lib}/lib.a", "-pthread", "-lm"], "link")
        for emulator in machine.emulators:
            for data in sorted(glob.glob(f"{folder}/test_data_set_*")):
                run_data(emulator, f"{tmp}/m", graph, data, f"{tmp}/out")


def run_machine(o, machine, names):
    """Counts of passed, failed, skipped."""
    counts = [0, 0, 0]
    with tempfile.TemporaryDirectory() as lib:
        command([o.tcc, "compile", f"{o.root}/{names[0]}/model.onnx", "--target", machine.target,
                 "--emit", "a", "-o", f"{lib}/lib.a"], "runtime")
        with open(f"{lib}/glue.c", "w") as f:
            f.write(GLUE)
        command([machine.cc, "-c", "-o", f"{lib}/glue.o", f"{lib}/glue.c"], "glue")
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            runs = {n: pool.submit(run_test, o, machine, lib, f"{o.root}/{n}") for n in names}
            for n, r in runs.items():
                e = r.exception()
                verdict = 0 if e is None else 2 if isinstance(e, EmulatorBug) else 1
                counts[verdict] += 1
                if e:
                    print(f"{('FAIL', 'SKIP')[verdict - 1]} {machine.target} {n}: {e}", flush=True)
    print(f"{machine.target}: %d passed, %d failed, %d skipped" % tuple(counts), flush=True)
    return counts


def fitting(o):
    names = []
    for n in open(o.list).read().split():
        if os.path.isdir(f"{o.root}/{n}"):
            g = onnx.load(f"{o.root}/{n}/model.onnx", load_external_data=False).graph
            if plain(g.input) and plain(g.output):
                names.append(n)
    return names


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--count", type=int, default=200)
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("--tcc", default="build/tcc-ml")
    ap.add_argument("--only", default="", help="targets, with commas")
    ap.add_argument("list")
    ap.add_argument("root")
    o = ap.parse_args()
    names = fitting(o)
    total = [0, 0, 0]
    for m in MACHINES:
        n = max(1, o.count // m.share)
        if not o.only or m.target in o.only.split(","):
            counts = run_machine(o, m, names[::max(1, len(names) // n)][:n])
            total = [a + b for a, b in zip(total, counts)]
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return total[1] > 0


if __name__ == "__main__":
    sys.exit(main())
