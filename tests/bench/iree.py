"""IREE as a peer. Its runtime is no library that a program can open, so that its own benchmark
program runs it, from C, in turn with ours in another process."""
import json
import os
import subprocess
import sys

import numpy as np
import onnx

OPTIONS = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
           "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]


class Unable(Exception):
    pass


def tool(name):
    return os.path.join(os.path.dirname(sys.executable), name)


def call(words, timeout):
    r = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=timeout)
    if r.returncode:
        lines = r.stderr.strip().splitlines()
        why = [line for line in lines if "error:" in line] or lines[-1:] or [f"code {r.returncode}"]
        raise Unable(f"{os.path.basename(words[0])}: {why[0]}")
    return r.stdout


def fixed(model, case, path):
    """The model with the inputs' shapes as the case has them: IREE compiles few others."""
    m = onnx.load(model)
    for v in m.graph.input:
        if v.name in case.inputs:
            dims = v.type.tensor_type.shape.dim
            for d, n in zip(dims, case.inputs[v.name].shape):
                d.dim_value = n
    del m.graph.value_info[:]
    for v in m.graph.output:
        for d in v.type.tensor_type.shape.dim:
            d.Clear()
    onnx.save(onnx.shape_inference.infer_shapes(m, data_prop=True), path)
    return [v.name for v in m.graph.input if v.name in case.inputs]


class Program:
    """The case's model compiled, its inputs in files."""

    def __init__(self, model, case, folder, timeout):
        names = fixed(model, case, f"{folder}/fixed.onnx")
        call([tool("iree-import-onnx"), f"{folder}/fixed.onnx", "-o", f"{folder}/iree.mlir"], timeout)
        with open(f"{folder}/iree.mlir") as f:
            line = next(text for text in f if "func.func @" in text)
        self.function = line.split("@", 1)[1].split("(", 1)[0]
        call([tool("iree-compile"), f"{folder}/iree.mlir", "-o", f"{folder}/iree.vmfb", *OPTIONS],
             timeout)
        self.module = f"{folder}/iree.vmfb"
        self.inputs = []
        for i, name in enumerate(names):
            np.save(f"{folder}/iree_{i}.npy", case.inputs[name])
            self.inputs.append(f"--input=@{folder}/iree_{i}.npy")
        self.timeout = timeout

    def block(self, threads, seconds):
        """Milliseconds of a run: the mean of those in so many seconds."""
        device = ["--device=local-sync"] if threads == 1 else \
            ["--device=local-task", f"--task_topology_group_count={threads}"]
        out = call([tool("iree-benchmark-module"), f"--module={self.module}", *device,
                    f"--function={self.function}", *self.inputs, "--benchmark_format=json",
                    f"--benchmark_min_time={seconds}s"], self.timeout)
        got = json.loads(out[out.index("{"):])["benchmarks"][0]
        if got.get("error_occurred"):
            raise Unable(got.get("error_message", "it does not run"))
        scale = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[got["time_unit"]]
        return got["real_time"] * scale


def compare(program, threads, rounds, seconds, ours):
    """-> as bench.c reports a peer; ours() gives the median of a block of our runs."""
    times, speedups = [], []
    for _ in range(rounds):
        mine = ours()
        times.append(program.block(threads, seconds))
        speedups.append(times[-1] / mine)
    return {"min_ms": min(times), "median_ms": float(np.median(times)),
            "rounds": [round(s, 4) for s in speedups], "speedup": float(np.median(speedups)),
            "min_speedup": min(speedups)}
