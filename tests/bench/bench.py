#!/usr/bin/env python3
"""Measures compiled models against onnxruntime, OpenVINO and IREE, all called from C (bench.c, iree.py).

usage: bench.py --corpus DIR [--models DIR] [--only IDS] [--first] [--sets 0,1] [--tokens 128,384]
                [--gemm] [--threads 1,2] [--peers ort,openvino,iree] [--other OPTIONS]
                [--precision f32|bf16] [--rounds N] [--seconds S] [--json FILE] [--picture FILE.svg]

The corpus is as in tests/corpus/compare.py; a set is a data file, which gives the inputs' shapes.
--tokens adds sequences of these lengths for models that read token ids, seeded; --gemm measures
products as models of one node; --other compares with what `compile OPTIONS` makes. All engines run
in turn in one process (IREE in one of its own), on inputs that are in memory; a round gives, for each
peer, its median time by ours. The table shows, for each number of threads, our median of all runs in
milliseconds and for each peer the median of the rounds' speed-ups (above 1: we are faster); then,
from processes of their own with one thread, load time, first run and peak
memory of ours and onnxruntime, and how far the outputs lie apart.
"""
import argparse
import csv
import glob
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus"))
from compare import DTYPES, Case, Failure, command  # noqa: E402
from gemm import gemm_models  # noqa: E402
import iree  # noqa: E402
from picture import write_picture  # noqa: E402


# --- what is measured ----------------------------------------------------------------------------

def with_tokens(case, length):
    """The case with sequences of `length` tokens, or None if it reads none."""
    rng = np.random.default_rng(1)
    shapes = {a.shape for a in case.inputs.values()}
    if len(shapes) != 1 or any(a.dtype != np.int64 or a.ndim != 2 for a in case.inputs.values()):
        return None
    new = Case.__new__(Case)
    new.outputs = case.outputs
    new.inputs = {}
    for name, a in case.inputs.items():
        shape = (a.shape[0], length)
        if "mask" in name:
            new.inputs[name] = np.ones(shape, np.int64)
        elif "type" in name:
            new.inputs[name] = np.zeros(shape, np.int64)
        else:
            new.inputs[name] = rng.integers(0, int(a.max()) + 1, shape)
    return new


def corpus_cases(o):
    """-> (name, model file, {set: case})"""
    only = set(filter(None, o.only.split(",")))
    with open(o.corpus + "/index.tsv", newline="") as f:
        rows = [r["id"] for r in csv.DictReader(f, delimiter="\t")
                if (not only or r["id"] in only) and (not o.first or r["first"] == "yes")]
    for mid in rows:
        files = {n: f"{o.corpus}/data/{mid}/data_{n}.npz" for n in o.sets}
        cases = {n: Case(path) for n, path in files.items() if os.path.exists(path)}
        for length in o.tokens if cases else []:
            cases[f"{length}"] = with_tokens(next(iter(cases.values())), length)
        yield (mid, f"{o.models}/{mid}/model.onnx", {n: c for n, c in cases.items() if c})


def lay_ports(case, folder):
    lines = []
    for i, (name, a) in enumerate(case.inputs.items()):
        if a.dtype.name not in DTYPES:
            raise Failure(f"inputs of type {a.dtype} are not measured")
        path = f"{folder}/in_{i}.raw"
        np.ascontiguousarray(a).tofile(path)
        words = ["input", name, DTYPES[a.dtype.name][0], path, a.ndim, *a.shape]
        lines.append(" ".join(map(str, words)))
    lines += [f"output {name}" for name in case.outputs]
    with open(f"{folder}/ports", "w") as f:
        f.write("\n".join(lines) + "\n")


# --- measuring -----------------------------------------------------------------------------------

def peer_libraries():
    """Where the peers that are installed lie: {key of bench.c: file}."""
    import importlib.util
    places = {"ort": ("onnxruntime", "capi/libonnxruntime.so*"),
              "openvino": ("openvino", "libs/libopenvino_c.so*")}
    found = {"iree": None} if os.path.exists(iree.tool("iree-compile")) else {}
    for key, (package, pattern) in places.items():
        spec = importlib.util.find_spec(package)
        files = glob.glob(os.path.join(spec.submodule_search_locations[0], pattern)) if spec else []
        if files:
            found[key] = files[0]
    return found


def symbols(lib):
    names = subprocess.run(["nm", "-D", "--defined-only", lib], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    return (next(n for n in names if n.endswith("tcc_model")),
            next(n for n in names if n.endswith("tcc_api") or n.endswith("tcc_user_api")))


def engine(o, mode, engines, model, lib, tmp, threads, rounds=0):
    """One run of bench.c; a peer that brings the process down is left out and said so."""
    names = symbols(lib)
    keys = {"other": f"{tmp}/other.so", **{k: v for k, v in o.libraries.items() if v}, "onnx": model, "so": lib, "model": names[0], "api": names[1],
            "ports": f"{tmp}/ports", "threads": threads, "rounds": rounds or o.rounds, "seconds": o.seconds,
            "precision": o.precision}
    r = subprocess.run([o.bench, mode, ",".join(engines)] + [f"{k}={v}" for k, v in keys.items()],
                       text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=o.timeout)
    if r.returncode == 0:
        return json.loads(r.stdout)
    why = (r.stderr.strip().splitlines() or [f"code {r.returncode}"])[-1]
    if len(engines) < 2 or r.returncode == 1:
        raise Failure(why)
    left = engine(o, mode, engines[:-1], model, lib, tmp, threads, rounds)
    left[engines[-1]] = {"error": f"ended by code {r.returncode}"}
    return left


def against_iree(o, model, case, lib, tmp):
    """For each number of threads what is to be added to its run."""
    try:
        program = iree.Program(model, case, tmp, o.timeout)
        for t in o.threads:
            yield iree.compare(program, t, o.rounds, o.seconds, lambda: engine(
                o, "together", ["tcc"], model, lib, tmp, t, rounds=1)["tcc"]["median_ms"])
    except (iree.Unable, subprocess.TimeoutExpired) as e:
        for _ in o.threads:
            yield {"error": str(e)}


def measure(o, model, cases, tmp):
    """-> {"compile_s", "sets": {set: {"alone": costs of ours and onnxruntime,
    "runs": one for each number of threads}}}"""
    lib = f"{tmp}/model.so"
    start = time.monotonic()
    command([o.tcc, "compile", model, "-o", lib, "--emit", "so", *o.options], o.timeout, "compile")
    result = {"compile_s": round(time.monotonic() - start, 2), "sets": {}}
    if o.other:
        command([o.tcc, "compile", model, "-o", f"{tmp}/other.so", "--emit", "so", *o.other],
                o.timeout, "compile")
    for number, case in cases.items():
        lay_ports(case, tmp)
        alone = {side: engine(o, "alone", [side], model, lib, tmp, 1)[side]
                 for side in ["tcc", *(p for p in o.peers if p == "ort")]}
        together = ["tcc", *(p for p in o.peers if p != "iree")]
        runs = [engine(o, "together", together, model, lib, tmp, t) for t in o.threads]
        if "iree" in o.peers:
            for run, more in zip(runs, against_iree(o, model, case, lib, tmp)):
                run["iree"] = more
        result["sets"][number] = {"alone": alone, "runs": runs}
    return result


def machine(o):
    return [json.loads(subprocess.run([o.bench, "machine", str(t)], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout) for t in o.threads]


# --- the table -----------------------------------------------------------------------------------

def cell(run, peer):
    return f" {run[peer]['speedup']:8.2f}" if "speedup" in run.get(peer, {}) else "        -"


def show(o, name, s):
    line = f"{name:28}"
    for run in s["runs"]:
        line += f" {run['tcc']['median_ms']:10.3f}" + "".join(cell(run, p) for p in o.peers)
    for key, scale, width in (("load_ms", 1, 8), ("first_ms", 1, 8), ("peak_kb", 1024, 6)):
        line += " " + "".join(f" {a.get(key, float('nan')) / scale:{width}.1f}"
                              for a in s["alone"].values())
    apart = s["runs"][0].get("ort", {}).get("difference", float("nan"))
    print(f"{line}  {apart:7.0e}", flush=True)


def mean(values):
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def speedups(done, peers, thread):
    """Of each set that all of the peers could run, the least speed-up over them."""
    for m in done.values():
        for s in m.get("sets", {}).values():
            got = [s["runs"][thread].get(p, {}).get("speedup") for p in peers]
            if any(got):
                yield min(x for x in got if x)


def summary(o, done):
    for i, threads in enumerate(o.threads):
        for name, peers in [(p, [p]) for p in o.peers] + [("best peer", o.peers)]:
            v = np.array(list(speedups(done, peers, i)))
            if v.size and (len(o.peers) > 1 or name != "best peer"):
                print(f"{threads} thread(s), {name}: geometric mean of the speed-ups {mean(v):.2f}, "
                      f"least {v.min():.2f}, faster in {int((v >= 1).sum())} of {v.size}")
    pairs = [s["alone"] for m in done.values() for s in m.get("sets", {}).values()
             if "peak_kb" in s["alone"].get("ort", {})]
    for key, what in (("peak_kb", "peak memory"), ("load_ms", "load")):
        v = [a["tcc"][key] / a["ort"][key] for a in pairs]
        if v:
            print(f"{what}, ours to onnxruntime's: geometric mean {mean(v):.3f}")


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def show_gemm(o, done, machines):
    """Shares of the machine's peak."""
    for name, m in done.items():
        if "flops" not in m:
            continue
        line = f"{name:28}"
        for t, run in zip(machines, next(iter(m["sets"].values()))["runs"]):
            gflops = m["flops"] / run["tcc"]["min_ms"] / 1e6
            line += f" {gflops:8.1f} GFLOPS {100 * gflops / t['gflops']:5.1f} %"
        print(line)


# --- the command line ----------------------------------------------------------------------------

def split(text):
    return list(filter(None, text.split(",")))


def numbers(text):
    return list(map(int, split(text)))


def arguments():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--corpus", required=True)
    ap.add_argument("--models")
    ap.add_argument("--tcc", default="build/tcc-ml")
    ap.add_argument("--bench", default="build/bench/bench")
    ap.add_argument("--only", default="", help="models; with --gemm: none means none")
    ap.add_argument("--first", action="store_true", help="the models that index.tsv marks so")
    ap.add_argument("--sets", type=split, default=["0", "1"], help="which data files' shapes")
    ap.add_argument("--tokens", type=numbers, default=[])
    ap.add_argument("--gemm", action="store_true", help="products, and no models unless --only")
    ap.add_argument("--peers", type=split, default=["ort", "openvino", "iree"])
    ap.add_argument("--other", type=str.split, default=[])
    ap.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    ap.add_argument("--threads", type=numbers, default=[1, 2])
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=0.4, help="of a block of a round")
    ap.add_argument("--timeout", type=float, default=600)
    ap.add_argument("--json", default="build/bench/results.json")
    ap.add_argument("--picture", default="build/bench/results.svg")
    o = ap.parse_args()
    o.models = o.models or o.corpus + "/models"
    o.options = ["--precision", o.precision] if o.precision != "f32" else []
    o.libraries = peer_libraries()
    o.peers = ["other"] * bool(o.other) + [p for p in o.peers if p in o.libraries]
    return o


def work(o, tmp):
    """-> (name, model, cases, flops or None)"""
    if o.gemm:
        yield from gemm_models(tmp)
    if not o.gemm or o.only:
        for mid, model, cases in corpus_cases(o):
            yield mid, model, cases, None


def one(o, model, cases):
    if not os.path.exists(model) or not cases:
        raise Failure("no model or data")
    with tempfile.TemporaryDirectory() as tmp:
        return measure(o, model, cases, tmp)


def main():
    o = arguments()
    machines = machine(o)
    for m in machines:
        print(f"{cpu_name()}, {m['threads']} thread(s): {m['gflops']} GFLOPS, {m['gbytes']} GB/s")
    print(f"{'model/set':28}" + "".join(f"  ours ms ({t})" + "".join(f" {p:>8}" for p in o.peers)
                                        for t in o.threads)
          + "     load ms (ours ort)  first ms  peak MB  difference")
    done = {}
    with tempfile.TemporaryDirectory() as tmp:
        for name, model, cases, flops in work(o, tmp):
            try:
                done[name] = one(o, model, cases)
            except (Failure, subprocess.TimeoutExpired) as e:
                print(f"{name:28}  failed: {e}", flush=True)
                done[name] = {"error": str(e)}
                continue
            if flops:
                done[name]["flops"] = flops
            for n, s in done[name]["sets"].items():
                show(o, f"{name}/{n}", s)
    summary(o, done)
    show_gemm(o, done, machines)
    os.makedirs(os.path.dirname(o.json) or ".", exist_ok=True)
    with open(o.json, "w") as f:
        json.dump({"cpu": cpu_name(), "machine": machines, "peers": o.peers,
                   "precision": o.precision, "rounds": o.rounds, "seconds": o.seconds,
                   "models": done}, f, indent=1)
    write_picture(o.picture, o.peers, o.threads, done)


if __name__ == "__main__":
    main()
