#!/usr/bin/env python3
"""Everything that wants a real GPU, in one run of at most --seconds (480): is it right, is it clean
under compute-sanitizer, how fast is it beside what else is installed, and what are the machine's
constants.

usage: check.py [--target sm_80] [--seconds 480] [--corpus DIR [--models DIR]] [--json FILE]
                [--rehearse TARGET]
The target is asked of the driver unless given. --rehearse runs the same steps with the simulator as
the device, on the smallest cases only: it shows that the script works, not that a GPU does.
Prints a summary and writes all of it as JSON; exit code 1 if an operator test or a check failed.
"""
import argparse
import csv
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "../backend")


# --- the device ----------------------------------------------------------------------------------

def nvidia_target():
    """sm_XY and the name of the first NVIDIA GPU, as its driver says; None without one."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, value, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return None
    parts = []
    for attribute in (75, 76):          # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return None
        parts.append(value.value)
    cuda.cuDeviceGetName(name, 256, device)
    return f"sm_{parts[0]}{parts[1]}", name.value.decode()


def amd_target():
    """gfxNNN as ROCm's rocminfo says; None without it."""
    if not shutil.which("rocminfo"):
        return None
    text = subprocess.run(["rocminfo"], stdout=subprocess.PIPE, text=True).stdout
    names = [w for line in text.splitlines() for w in line.split() if w.startswith("gfx")]
    return (names[0], names[0]) if names else None


# --- running tcc-ml ------------------------------------------------------------------------------

class Clock:
    """Shares of the time that the whole run may take."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return max(0.0, self.end - time.monotonic())

    def share(self, part):
        return time.monotonic() + self.left() * part


def tcc(o, *args, limit=120):
    """The command's JSON, or {"error": what it said}."""
    options = ["--target", o.target] + (["--simulate"] if o.rehearse else [])
    try:
        r = subprocess.run([o.tcc, *args, *options, "--json"], text=True, timeout=limit,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return json.loads(r.stdout)
    except subprocess.TimeoutExpired:
        return {"error": f"takes over {limit:g} s"}
    except json.JSONDecodeError:
        return {"error": (r.stderr.strip().splitlines() or [f"code {r.returncode}"])[-1]}


def bench(o, until, model, *args):
    quick = ["--iters", "2", "--warmup", "0"] if o.rehearse else ["--duration", "0.5"]
    return tcc(o, "bench", model, *quick, *args, limit=max(10.0, until - time.monotonic()))


# --- is it right? --------------------------------------------------------------------------------

def spread(items):
    """Every sixteenth first, then the rest: whatever time allows is a fair sample."""
    return [x for k in range(16) for x in items[k::16]]


def check_operators(o, until):
    listed = "gfx942.txt" if o.target.startswith("gfx") else "sm_80.txt"
    with open(f"{CASES}/{listed}") as f:
        names = spread(f.read().split())
    result = {"listed": len(names), "passed": 0, "failed": []}
    step = 4 if o.rehearse else 64
    for k in range(0, len(names), step):
        if time.monotonic() > until:
            break
        got = tcc(o, "verify", "-j", "4", *(f"{o.backend}/{n}" for n in names[k:k + step]), limit=600)
        if "cases" not in got:
            result["failed"].append(got.get("error", "no result"))
            break
        result["passed"] += got["passed"]
        result["failed"] += [c for c in got["cases"] if c["verdict"] != "PASS"]
    return result


def check_sanitizer(o, until):
    """Programs under compute-sanitizer: memory, races, uninitialised reads, barriers."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if o.rehearse or not os.path.exists(tool):
        return {"skipped": "the simulator checks by itself" if o.rehearse else "not installed"}
    with open(f"{CASES}/sm_80.txt") as f:
        names = f.read().split()[::100]
    result = {"runs": 0, "failed": []}
    with tempfile.TemporaryDirectory() as tmp:
        for name in names:
            exe = f"{tmp}/program"
            if time.monotonic() > until:
                break
            subprocess.run([o.tcc, "compile", f"{o.backend}/{name}/model.onnx", "--target", o.target,
                            "-o", exe], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for check in ("memcheck", "racecheck", "initcheck", "synccheck"):
                r = subprocess.run([tool, "--tool", check, "--error-exitcode", "99", exe, "--bench"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                result["runs"] += 1
                if r.returncode == 99:
                    result["failed"].append({"case": name, "tool": check, "text": r.stdout[-2000:]})
    return result


# --- does it start? ------------------------------------------------------------------------------

def check_start(o, until):
    """A program for this device and two others: what it says, how long until its first result."""
    if o.rehearse:
        return {"skipped": "tests/device/artefact.sh starts programs without a GPU"}
    others = ["gfx942", "gfx1100"] if o.target.startswith("gfx") else ["sm_75", "sm_120"]
    targets = [a for t in {o.target, *others} for a in ("--target", t)]
    with tempfile.TemporaryDirectory() as tmp:
        exe = f"{tmp}/program"
        r = subprocess.run([o.tcc, "compile", f"{HERE}/../../models/digits.onnx", *targets, "-o", exe],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if r.returncode:
            return {"failed": [r.stdout[-500:]]}
        info = subprocess.run([exe, "--info"], stdout=subprocess.PIPE, text=True).stdout
        r = subprocess.run([exe, "--bench", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    images = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("images:")]
    if r.returncode:
        return {"images": images, "failed": [r.stderr[-500:]]}
    got = json.loads(r.stdout)
    return {"images": images, "failed": [], **{k: got[k] for k in ("load_ms", "first_ms", "median_ms")}}


# --- how fast is it? -----------------------------------------------------------------------------

PEERS = [("onnxruntime CUDA", "CUDAExecutionProvider"), ("TensorRT", "TensorrtExecutionProvider")]


def peer_ms(provider, model, inputs):
    """Median milliseconds of onnxruntime with the provider, inputs and outputs on the device."""
    import onnxruntime as ort
    session = ort.InferenceSession(model, providers=[provider])
    if session.get_providers()[0] != provider:
        return None
    binding = session.io_binding()
    for name, a in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(a, "cuda", 0))
    for out in session.get_outputs():
        binding.bind_output(out.name, "cuda")
    times = []
    for k in range(30):
        binding.synchronize_inputs()
        start = time.perf_counter()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times[5:]))


def torch_ms(mid, inputs):
    """Median milliseconds of the torchvision model that the id names, compiled by torch; None: no such."""
    import torch
    import torchvision
    if not torch.cuda.is_available() or mid[3:] not in torchvision.models.list_models():
        return None
    net = torch.compile(torchvision.models.get_model(mid[3:], weights=None).eval().cuda(),
                        mode="reduce-overhead")
    x = [torch.from_numpy(a).cuda() for a in inputs.values()]
    times = []
    with torch.no_grad():
        for k in range(30):
            torch.cuda.synchronize()
            start = time.perf_counter()
            net(*x)
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times[10:]))


def torch_peer(mid, inputs):
    if not mid.startswith("tv_"):
        return {}
    try:
        ms = torch_ms(mid, inputs)
    except ImportError:
        return {}
    except Exception as e:              # a peer's failure is a result
        return {"torch.compile": str(e).splitlines()[0][:200]}
    return {} if ms is None else {"torch.compile": ms}


def peers(mid, model, inputs):
    found = torch_peer(mid, inputs)
    try:
        import onnxruntime as ort
    except ImportError:
        return found
    for name, provider in PEERS:
        if provider not in ort.get_available_providers():
            continue
        try:
            found[name] = peer_ms(provider, model, inputs)
        except Exception as e:          # a peer's failure is a result
            found[name] = str(e).splitlines()[0][:200]
    return found


def check_speed(o, until):
    if not o.corpus:
        return {"skipped": "no corpus"}
    with open(o.corpus + "/index.tsv", newline="") as f:
        rows = [r["id"] for r in csv.DictReader(f, delimiter="\t") if r["first"] == "yes"]
    results = {}
    for mid in rows:
        model, data = f"{o.models}/{mid}/model.onnx", f"{o.corpus}/data/{mid}/data_0.npz"
        if time.monotonic() > until:
            break
        if not os.path.exists(model) or not os.path.exists(data):
            continue
        d = np.load(data)
        inputs = {str(n): d[f"in_{i}"] for i, n in enumerate(d["in_names"])}
        with tempfile.TemporaryDirectory() as tmp:
            np.savez(f"{tmp}/in.npz", **inputs)
            got = bench(o, until, model, "--input", f"{tmp}/in.npz")
        keys = ("exec_ms", "median_ms", "first_ms", "error")
        results[mid] = {k: got[k] for k in keys if k in got}
        results[mid]["peers"] = {} if o.rehearse else peers(mid, model, inputs)
        print(f"  {mid:28} {results[mid]}", flush=True)
    return results


# --- the machine's constants ---------------------------------------------------------------------

class Probe:
    """A model of one idea, and what its execution time says."""

    def __init__(self, name, unit, nodes, shapes, value, dtype=TensorProto.FLOAT, weights=(),
                 key="exec_ms"):
        self.name, self.unit, self.value, self.key = name, unit, value, key
        inputs = [helper.make_tensor_value_info(n, dtype, s) for n, s in shapes.items()]
        outputs = [helper.make_tensor_value_info(nodes[-1].output[0], dtype, None)]
        graph = helper.make_graph(nodes, "probe", inputs, outputs,
                                  [numpy_helper.from_array(a, n) for n, a in weights])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                       ir_version=8)


def product(n, dtype, name):
    nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
    return Probe(name, "TFLOPS", nodes, {"a": [n, n], "b": [n, n]},
                 lambda ms: 2 * n ** 3 / ms / 1e9, dtype)


def elementwise(op, n, name, unit, value, repeat=1):
    nodes, last = [], "x"
    for k in range(repeat):
        nodes.append(helper.make_node(op, [last], [f"y{k}"]))
        last = f"y{k}"
    return Probe(name, unit, nodes, {"x": [n]}, value)


def launches(n, count):
    """Softmax over short rows, again and again along other axes: kernels that do next to nothing."""
    nodes, last = [], "x"
    for k in range(count):
        nodes.append(helper.make_node("Softmax", [last], [f"y{k}"], axis=k % 2))
        last = f"y{k}"
    return Probe(f"{count} launches", "us each", nodes, {"x": [n, n]}, lambda ms: 1e3 * ms / count)


def probes(small):
    big, side = (1 << 12, 64) if small else (1 << 26, 4096)
    l2 = 1 << 10 if small else 1 << 21
    return [
        launches(16, 4 if small else 64),
        elementwise("Neg", big, "DRAM", "GB/s", lambda ms: 8 * big / ms / 1e6),
        elementwise("Neg", l2, "L2", "GB/s", lambda ms: 8 * l2 / ms / 1e6),
        elementwise("Exp", big, "exp", "G/s", lambda ms: 8 * big / ms / 1e6, repeat=8),
        Probe("row softmax", "GB/s", [helper.make_node("Softmax", ["x"], ["y"])],
              {"x": [big // 64, 64]}, lambda ms: 8 * big / ms / 1e6),
        Probe("transpose", "GB/s", [helper.make_node("Transpose", ["x"], ["y"])],
              {"x": [big // 64, 64]}, lambda ms: 8 * big / ms / 1e6),
        Probe("reduction", "GB/s", [helper.make_node("ReduceSum", ["x"], ["y"])],
              {"x": [big]}, lambda ms: 4 * big / ms / 1e6),
        product(side, TensorProto.FLOAT, "product f32"),
        product(side, TensorProto.FLOAT16, "product f16"),
        Probe("upload", "GB/s", [helper.make_node("Neg", ["x"], ["y"])], {"x": [big // 4]},
              lambda ms: big / ms / 1e6, key="h2d_ms"),
    ]


def check_constants(o, until):
    results = {}
    with tempfile.TemporaryDirectory() as tmp:
        for p in probes(o.rehearse):
            if time.monotonic() > until:
                break
            onnx.save(p.model, f"{tmp}/probe.onnx")
            got = bench(o, until, f"{tmp}/probe.onnx")
            ms = got.get(p.key)
            results[p.name] = ({"value": p.value(ms), "unit": p.unit, p.key: ms} if ms
                               else {"error": got.get("error", "no time")})
            print(f"  {p.name:16} {results[p.name]}", flush=True)
    return results


# --- the run -------------------------------------------------------------------------------------

STEPS = [("start", check_start, 0.05), ("constants", check_constants, 0.15), ("operators", check_operators, 0.5),
         ("sanitizer", check_sanitizer, 0.4), ("speed", check_speed, 1.0)]


def arguments():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--target")
    ap.add_argument("--rehearse", metavar="TARGET")
    ap.add_argument("--seconds", type=float, default=480)
    ap.add_argument("--corpus")
    ap.add_argument("--models")
    ap.add_argument("--tcc", default="build/tcc-ml")
    ap.add_argument("--backend", default="build/backend")
    ap.add_argument("--json", default="build/device.json")
    o = ap.parse_args()
    found = (o.rehearse, "simulator") if o.rehearse else nvidia_target() or amd_target()
    if not found:
        sys.exit("no GPU: neither NVIDIA's driver nor ROCm finds one; --rehearse sm_80 shows the steps")
    o.target, o.device = o.target or found[0], found[1]
    o.models = o.models or (o.corpus and o.corpus + "/models")
    return o


def main():
    o = arguments()
    clock = Clock(o.seconds)
    results = {"target": o.target, "device": o.device, "rehearsal": bool(o.rehearse)}
    print(f"{o.device}, {o.target}")
    for name, step, part in STEPS:
        print(name, flush=True)
        results[name] = step(o, clock.share(part))
    with open(o.json, "w") as f:
        json.dump(results, f, indent=1)
    ops, clean = results["operators"], results["sanitizer"]
    bad = sum(len(results[k].get("failed", [])) for k in ("start", "operators", "sanitizer"))
    print(f"operators: {ops['passed']} passed, {len(ops['failed'])} failed, of {ops['listed']}; "
          f"sanitizer: {clean.get('runs', 0)} runs, {len(clean.get('failed', []))} failed; {o.json}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
