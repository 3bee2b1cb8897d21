#!/usr/bin/env python3
"""Measures compiled models against onnxruntime, both called from C (bench.c).

usage: bench.py --corpus DIR [--models DIR] [--only ids] [--first] [--threads 1,2] [--sets 0,1]
                [--rounds N] [--seconds S] [--json FILE]
The corpus is as in tests/corpus/compare.py; a set is a data file, which gives the inputs' shapes.
Our program and onnxruntime run in turn in one process, on inputs that are in memory; a round gives
the ratio of the medians of its blocks. The table shows, for each number of threads, both medians of
all runs in milliseconds and the median of the rounds' ratios (above 1: we are slower); then, from
processes of their own with one thread, load time, first run and peak memory of both, and how far the
outputs lie apart.
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
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus"))
from compare import DTYPES, Case, Failure, command  # noqa: E402


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


def symbols(lib):
    names = subprocess.run(["nm", "-D", "--defined-only", lib], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    return (next(n for n in names if n.endswith("tcc_model")),
            next(n for n in names if n.endswith("tcc_api") or n.endswith("tcc_user_api")))


def run(o, mode, model, lib, tmp, threads):
    ort = glob.glob(os.path.dirname(onnxruntime.__file__) + "/capi/libonnxruntime.so*")[0]
    args = [o.bench, mode, ort, model, lib, *symbols(lib), f"{tmp}/ports", str(threads),
            str(o.rounds), str(o.seconds)]
    r = subprocess.run(args, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=o.timeout)
    if r.returncode:
        raise Failure((r.stderr.strip().splitlines() or [f"code {r.returncode}"])[-1])
    return json.loads(r.stdout)


def measure(o, model, datas, tmp):
    """-> {"compile_s", "sets": {set: {"alone": both sides' costs, "runs": one for each thread count}}}"""
    lib = f"{tmp}/model.so"
    start = time.monotonic()
    command([o.tcc, "compile", model, "-o", lib, "--emit", "so"], o.timeout, "compile")
    result = {"compile_s": round(time.monotonic() - start, 2), "sets": {}}
    for number, data in datas.items():
        lay_ports(Case(data), tmp)
        alone = {}
        for side in ("ours", "ort"):
            r = run(o, side, model, lib, tmp, 1)
            alone[side] = {**r[side], "peak_kb": r["peak_kb"]}
        result["sets"][number] = {"alone": alone,
                                  "runs": [run(o, "both", model, lib, tmp, t) for t in o.threads]}
    return result


def show(name, s):
    cells = "".join(f" {r['ours']['median_ms']:10.3f} {r['ort']['median_ms']:10.3f} {r['ratio']:5.2f}"
                    for r in s["runs"])
    a, b = s["alone"]["ours"], s["alone"]["ort"]
    print(f"{name:28}{cells}  {a['load_ms']:8.1f} {b['load_ms']:8.1f} {a['first_ms']:8.1f} "
          f"{b['first_ms']:8.1f} {a['peak_kb'] / 1024:6.0f} {b['peak_kb'] / 1024:6.0f}  "
          f"{s['runs'][0]['difference']:7.0e}", flush=True)


def mean(values):
    return float(np.exp(np.mean(np.log(values))))


def summary(o, done):
    sets = [s for m in done.values() for s in m.get("sets", {}).values()]
    for i, threads in enumerate(o.threads):
        ratios = [s["runs"][i]["ratio"] for s in sets]
        if ratios:
            print(f"{threads} thread(s): geometric mean of the ratios {mean(ratios):.2f}, largest "
                  f"{max(ratios):.2f}, {sum(r > 2.5 for r in ratios)} of {len(ratios)} above 2.5")
    if sets:
        print("peak memory, ours to onnxruntime's: geometric mean", round(mean(
            [s["alone"]["ours"]["peak_kb"] / s["alone"]["ort"]["peak_kb"] for s in sets]), 2))


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def arguments():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--corpus", required=True)
    ap.add_argument("--models")
    ap.add_argument("--tcc", default="build/tcc-ml")
    ap.add_argument("--bench", default="build/bench/bench")
    ap.add_argument("--only", default="")
    ap.add_argument("--first", action="store_true", help="the models that index.tsv marks so")
    ap.add_argument("--sets", default="0,1", help="which data files' shapes")
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=0.4, help="of a block of a round")
    ap.add_argument("--timeout", type=float, default=600)
    ap.add_argument("--json", default="build/bench/results.json")
    o = ap.parse_args()
    o.models = o.models or o.corpus + "/models"
    o.threads = list(map(int, o.threads.split(",")))
    return o


def main():
    o = arguments()
    only = set(filter(None, o.only.split(",")))
    with open(o.corpus + "/index.tsv", newline="") as f:
        rows = [r["id"] for r in csv.DictReader(f, delimiter="\t")
                if (not only or r["id"] in only) and (not o.first or r["first"] == "yes")]
    print(f"{'model/set':28}" + "".join(f"  ours ({t} thr)        ort ratio" for t in o.threads)
          + "      load ms (ours ort)   first ms   peak MB (ours ort)  difference")
    done = {}
    for mid in rows:
        model = f"{o.models}/{mid}/model.onnx"
        datas = {n: f"{o.corpus}/data/{mid}/data_{n}.npz" for n in o.sets.split(",")}
        datas = {n: d for n, d in datas.items() if os.path.exists(d)}
        if not os.path.exists(model) or not datas:
            print(f"{mid:28}  skipped: no model or data")
            continue
        try:
            with tempfile.TemporaryDirectory() as tmp:
                done[mid] = measure(o, model, datas, tmp)
        except (Failure, subprocess.TimeoutExpired) as e:
            print(f"{mid:28}  failed: {e}", flush=True)
            done[mid] = {"error": str(e)}
            continue
        for n, s in done[mid]["sets"].items():
            show(f"{mid}/{n}", s)
    summary(o, done)
    os.makedirs(os.path.dirname(o.json) or ".", exist_ok=True)
    with open(o.json, "w") as f:
        json.dump({"onnxruntime": onnxruntime.__version__, "cpu": cpu_name(),
                   "rounds": o.rounds, "seconds": o.seconds, "models": done}, f, indent=1)


if __name__ == "__main__":
    main()
