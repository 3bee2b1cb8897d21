#!/usr/bin/env python3
"""Measures compiled models against onnxruntime; both are called from C in one process (bench.c).

usage: bench.py --corpus DIR [--models DIR] [--only ids] [--first] [--threads 1,2] [--json FILE]
The corpus is as in tests/corpus/compare.py. Prints a table: median milliseconds of a warm run of
both, their ratio (above 1: we are slower) and how far the outputs lie apart.
"""
import argparse
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile

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


def measure(o, model, data, tmp):
    """-> a dict for each thread count"""
    lib = f"{tmp}/model.so"
    command([o.tcc, "compile", model, "-o", lib, "--emit", "so"], o.timeout, "compile")
    lay_ports(Case(data), tmp)
    ort = glob.glob(os.path.dirname(onnxruntime.__file__) + "/capi/libonnxruntime.so*")[0]
    results = []
    for threads in o.threads:
        args = [o.bench, ort, model, lib, *symbols(lib), f"{tmp}/ports", str(threads),
                str(o.rounds), str(o.seconds)]
        r = subprocess.run(args, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=o.timeout)
        if r.returncode:
            raise Failure((r.stderr.strip().splitlines() or [f"code {r.returncode}"])[-1])
        results.append(json.loads(r.stdout))
    return results


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--corpus", required=True)
    ap.add_argument("--models")
    ap.add_argument("--tcc", default="build/tcc-ml")
    ap.add_argument("--bench", default="build/bench/bench")
    ap.add_argument("--only", default="")
    ap.add_argument("--first", action="store_true")
    ap.add_argument("--set", type=int, default=0, help="which data file's shapes")
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=0.4, help="of a block of a round")
    ap.add_argument("--timeout", type=float, default=600)
    ap.add_argument("--json", default="build/bench/results.json")
    o = ap.parse_args()
    o.models = o.models or o.corpus + "/models"
    o.threads = list(map(int, o.threads.split(",")))
    only = set(filter(None, o.only.split(",")))
    with open(o.corpus + "/index.tsv", newline="") as f:
        rows = [r["id"] for r in csv.DictReader(f, delimiter="\t")
                if (not only or r["id"] in only) and (not o.first or r["first"] == "yes")]
    print(f"{'model':26}" + "".join(f"  {t} thread: ours     ort  ratio" for t in o.threads)
          + "  difference")
    done, worst = {}, 0.0
    for mid in rows:
        model = f"{o.models}/{mid}/model.onnx"
        data = f"{o.corpus}/data/{mid}/data_{o.set}.npz"
        if not os.path.exists(model) or not os.path.exists(data):
            print(f"{mid:26}  skipped: no model or data")
            continue
        try:
            with tempfile.TemporaryDirectory() as tmp:
                results = measure(o, model, data, tmp)
        except (Failure, subprocess.TimeoutExpired) as e:
            print(f"{mid:26}  failed: {e}", flush=True)
            done[mid] = {"error": str(e)}
            continue
        done[mid] = results
        worst = max([worst] + [r["ratio"] for r in results])
        cells = "".join(f"  {r['ours']['median_ms']:14.3f} {r['ort']['median_ms']:7.3f} "
                        f"{r['ratio']:6.2f}" for r in results)
        print(f"{mid:26}{cells}  {results[0]['difference']:10.1e}", flush=True)
    ratios = [r["ratio"] for rs in done.values() if isinstance(rs, list) for r in rs]
    if ratios:
        print(f"geometric mean of the ratios {np.exp(np.mean(np.log(ratios))):.2f}, "
              f"largest {worst:.2f}, {len(done)} models")
    with open(o.json, "w") as f:
        json.dump({"onnxruntime": onnxruntime.__version__, "models": done}, f, indent=1)


if __name__ == "__main__":
    main()
