#!/usr/bin/env python3
"""Runs real models through tcc-ml and compares with onnxruntime's outputs.

usage: compare.py --corpus DIR [options] [-- COMPILE-OPTION...]

DIR holds index.tsv and data/<id>/data_V.npz (in_names, out_names, in_0 ..., out_0 ..., a ZipMap's
output as out_k_json); the models are MODELS/<id>/model.onnx. One compiled model serves all of a
model's data files. Floats may differ by max(RTOL, 8 * ort_spread) times the output's largest
magnitude, where ort_spread (of index.tsv) says how far onnxruntime differs from itself; integers,
labels and strings not at all. Prints a line for each model and `N passed, N failed, N skipped`.
"""
import argparse
import concurrent.futures
import csv
import ctypes
import filecmp
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

RTOL = 1e-3


class Failure(Exception):
    pass


# --- comparing ----------------------------------------------------------------------------------

def is_inexact(a):
    return a.dtype.kind in "fc" or a.dtype.name == "bfloat16"


def error_of(got, want, name):
    """Largest error relative to the largest magnitude of `want`; raises if kind or shape differ."""
    if got.shape != want.shape:
        raise Failure(f"{name}: shape {list(got.shape)}, want {list(want.shape)}")
    if want.dtype.kind in "OSU":
        if [str(x) for x in got.ravel()] != [str(x) for x in want.ravel()]:
            raise Failure(f"{name}: strings differ")
        return 0.0
    if got.dtype != want.dtype:
        raise Failure(f"{name}: type {got.dtype}, want {want.dtype}")
    if not is_inexact(want):
        n = int((got != want).sum())
        if n:
            raise Failure(f"{name}: {n} of {want.size} {want.dtype} values differ")
        return 0.0
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    finite = np.isfinite(got) & np.isfinite(want)
    if not (same | finite).all():
        raise Failure(f"{name}: NaN or Inf at {int((~(same | finite)).sum())} of {want.size} values")
    if same.all():
        return 0.0
    scale = np.abs(want[np.isfinite(want)]).max(initial=0.0)
    worst = np.abs(got - want)[~same].max()
    return float(worst / scale) if scale else float("inf")


def map_error(got, want, name):
    if len(got) != len(want):
        raise Failure(f"{name}: {len(got)} maps, want {len(want)}")
    for g, w in zip(got, want):
        if sorted(map(str, g)) != sorted(map(str, w)):
            raise Failure(f"{name}: keys {sorted(map(str, g))}, want {sorted(map(str, w))}")
    rows = [[{str(k): v for k, v in m.items()}[str(k)] for k in want[0]] for m in got]
    return error_of(np.array(rows, np.float32),
                    np.array([list(m.values()) for m in want], np.float32), name)


class Case:
    """One data file: inputs by name, and outputs by name (arrays, or lists of dicts)."""

    def __init__(self, path):
        d = np.load(path, allow_pickle=False)
        self.inputs = {str(n): d[f"in_{i}"] for i, n in enumerate(d["in_names"])}
        self.outputs = {}
        for i, n in enumerate(d["out_names"]):
            text = d[f"out_{i}_json"] if f"out_{i}_json" in d.files else None
            self.outputs[str(n)] = d[f"out_{i}"] if text is None else json.loads(str(text))

    def compare(self, got):
        worst = 0.0
        if len(got) != len(self.outputs):
            raise Failure(f"{len(got)} outputs, want {len(self.outputs)}")
        for value, (name, want) in zip(got, self.outputs.items()):
            judge = map_error if isinstance(want, list) else error_of
            worst = max(worst, judge(value, want, name))
        return worst


def resized(a, shape):
    """Elements at even distances along each dimension; zeros if there are none."""
    if not a.size:
        return np.zeros(shape, a.dtype)
    return a[np.ix_(*(np.arange(n) * old // n for n, old in zip(shape, a.shape)))]


def reduced(case, model, shapes):
    """The case with its inputs resized, and onnxruntime's outputs for them."""
    import onnxruntime as ort
    new = Case.__new__(Case)
    new.inputs = {}
    for name, a in case.inputs.items():
        shape = next((s for p, s in shapes.items() if fnmatch.fnmatchcase(name, p)), a.shape)
        new.inputs[name] = resized(a, shape)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    try:
        new.outputs = dict(zip(case.outputs, session.run(None, new.inputs)))
    except Exception as e:
        raise Failure(f"onnxruntime refuses the reduced shapes: {e}")
    return new


# --- running ------------------------------------------------------------------------------------

def command(args, limit, what):
    try:
        r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                           stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Failure(f"{what} takes over {limit:g} s")
    if r.returncode:
        lines = [x for x in r.stdout.decode(errors="replace").splitlines() if x.strip()]
        said = next((x for x in lines if "error" in x), lines[-1] if lines else "")
        raise Failure(f"{what} ended with code {r.returncode}: {said[:300]}")


def write_inputs(case, folder):
    args = []
    for i, (name, a) in enumerate(case.inputs.items()):
        path = f"{folder}/input_{i}.npy"
        np.save(path, a)
        args += ["--input", f"{name}={path}"]
    return args


def read_proto(path, proto, decode):
    import onnx
    with open(path, "rb") as f:
        return getattr(onnx.numpy_helper, decode)(getattr(onnx, proto).FromString(f.read()))


def read_maps(stem):
    """A sequence of maps: one file, or one for each element."""
    if os.path.exists(stem + ".pb"):
        return read_proto(stem + ".pb", "SequenceProto", "to_list")
    if os.path.exists(stem + "_0.pb"):
        n = sum(f.startswith(os.path.basename(stem) + "_") for f in os.listdir(os.path.dirname(stem)))
        return [read_proto(f"{stem}_{i}.pb", "MapProto", "to_dict") for i in range(n)]
    if os.path.exists(stem + ".json"):
        with open(stem + ".json") as f:
            v = json.load(f)
        return v if isinstance(v, list) else [v]
    maps = []
    while os.path.exists(f"{stem}_{len(maps)}.json"):
        with open(f"{stem}_{len(maps)}.json") as f:
            maps.append(json.load(f))
    return maps


def read_outputs(case, folder):
    got = []
    for i, (name, want) in enumerate(case.outputs.items()):
        stem = f"{folder}/output_{i}"
        if isinstance(want, list):
            got.append(read_maps(stem))
        elif os.path.exists(stem + ".npy"):
            got.append(np.load(stem + ".npy"))
        elif os.path.exists(stem + ".txt"):
            with open(stem + ".txt") as f:
                got.append(np.array(f.read().splitlines()).reshape(want.shape))
        else:
            raise Failure(f"no file {os.path.basename(stem)}.* for output {name}")
    return got


def run_program(args, case, folder, limit):
    os.makedirs(folder)
    command(args + write_inputs(case, folder) + ["--output-dir", folder], limit, "the run")
    return read_outputs(case, folder)


def compile_model(o, model, out, emit):
    command([o.tcc, "compile", model, "-o", out, "--emit", emit, *target_options(o), *o.rest],
            o.timeout, "compile")


def target_options(o):
    return (["--target", o.target] if o.target else []) + (["--simulate"] if o.simulate else [])


def mode_run(o, model, cases, tmp):
    for i, case in enumerate(cases):
        yield run_program([o.tcc, "run", model, *target_options(o), *o.rest], case, f"{tmp}/{i}",
                          o.timeout)


def mode_exe(o, model, cases, tmp):
    exe = f"{tmp}/model"
    compile_model(o, model, exe, "exe")
    threads = ["--threads", str(o.threads)] if o.threads else []
    for i, case in enumerate(cases):
        yield run_program([*o.under.split(), exe, *threads], case, f"{tmp}/{i}", o.timeout)


def mode_so(o, model, cases, tmp):
    lib = f"{tmp}/model.so"
    compile_model(o, model, lib, "so")
    for i, case in enumerate(cases):
        folder = f"{tmp}/{i}"
        os.makedirs(folder)
        for k, a in enumerate(case.inputs.values()):
            np.save(f"{folder}/input_{k}.npy", a)
        command([sys.executable, os.path.abspath(__file__), "--call", lib, folder,
                 str(len(case.inputs)), str(len(case.outputs)), str(o.threads)],
                o.timeout, "the call")
        yield read_outputs(case, folder)


LEVELS = ("graph", "tensor", "loop")


def write_text(o, model, folder, level):
    os.makedirs(folder)
    command([o.tcc, "compile", model, "--emit", "ir", "--stage", level, "-o", f"{folder}/m.ir",
             *target_options(o), *o.rest], o.timeout, f"{level} level")
    return f"{folder}/m.ir"


def mode_text(o, model, cases, tmp):
    """The IR's text of each level, read and printed again, is the same; there are no outputs.

    And each kernel names its ONNX nodes."""
    for level in LEVELS:
        text = write_text(o, model, f"{tmp}/{level}", level)
        again = f"{tmp}/{level}/again"
        os.makedirs(again)
        command([o.tcc, "opt", text, "--passes=", "-o", f"{again}/m.ir", *target_options(o)],
                o.timeout, f"reading {level} level")
        for f in os.listdir(again):
            if not filecmp.cmp(f"{tmp}/{level}/{f}", f"{again}/{f}", shallow=False):
                raise Failure(f"{level} level: {f} prints differently when it is read back")
    with open(text) as f:
        lines = [x.strip() for x in f]
    kernels = sum(x.startswith('kernel "') for x in lines)
    if sum(x.startswith("from  loc(") for x in lines) != kernels:
        raise Failure(f"not all of {kernels} kernels name an ONNX node")
    return iter(())


def mode_levels(o, model, cases, tmp):
    """Programs from the text of each level give the same bytes."""
    want = None
    for level in LEVELS:
        exe = f"{tmp}/{level}.exe"
        compile_model(o, write_text(o, model, f"{tmp}/{level}", level), exe, "exe")
        got = [run_program([*o.under.split(), exe, "--threads", "1"], case, f"{tmp}/{level}/{i}",
                           o.timeout) for i, case in enumerate(cases)]
        for i, case in enumerate(cases):
            first = filecmp.dircmp(f"{tmp}/graph/{i}", f"{tmp}/{level}/{i}")
            outputs = [f for f in first.common_files if f.startswith("output_")]
            if filecmp.cmpfiles(first.left, first.right, outputs, shallow=False)[0] != outputs:
                raise Failure(f"data {i}: {level} level gives other bytes than graph level")
        want = want or got
    yield from want


# --- calling a shared object (runtime/abi.h) ------------------------------------------------------

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Value(ctypes.Structure):
    pass


class Seq(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint64), ("items", ctypes.POINTER(Value))]


class Map(ctypes.Structure):
    _fields_ = [("keys", ctypes.POINTER(Value)), ("values", ctypes.POINTER(Value))]


class Union(ctypes.Union):
    _fields_ = [("tensor", Tensor), ("seq", Seq), ("map", Map)]


Value._fields_ = [("kind", ctypes.c_uint32), ("dtype", ctypes.c_uint32), ("u", Union)]


class Str(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_uint64)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("threads", ctypes.c_int32),
                ("weights", ctypes.c_char_p), ("device", ctypes.c_char_p),
                ("parallel_for", ctypes.c_void_p), ("parallel_user", ctypes.c_void_p),
                ("stream", ctypes.c_void_p), ("profile", ctypes.c_int32)]


P = ctypes.c_void_p


class Api(ctypes.Structure):
    _fields_ = [("abi_version", ctypes.c_uint32), ("size", ctypes.c_uint32),
                ("load", ctypes.CFUNCTYPE(ctypes.c_int, P, P, P)),
                ("unload", ctypes.CFUNCTYPE(None, P)),
                ("inst_error", ctypes.CFUNCTYPE(ctypes.c_char_p, P)),
                ("context_new", ctypes.CFUNCTYPE(ctypes.c_int, P, P)),
                ("context_free", ctypes.CFUNCTYPE(None, P)),
                ("error", ctypes.CFUNCTYPE(ctypes.c_char_p, P)),
                ("run", ctypes.CFUNCTYPE(ctypes.c_int, P, P, ctypes.c_uint64, P, ctypes.c_uint64))]


DTYPES = {"float32": (1, 2), "uint8": (2, 1), "int8": (3, 0), "uint16": (4, 1), "int16": (5, 0),
          "int32": (6, 0), "int64": (7, 0), "bool": (9, 6), "float16": (10, 2), "float64": (11, 2),
          "uint32": (12, 1), "uint64": (13, 1)}
NAMES = {number: name for name, (number, _) in DTYPES.items()}
STRING = 8


def to_value(a, keep):
    """A TccValue of an array; `keep` holds what it points to."""
    v = Value(kind=1)
    shape = (ctypes.c_int64 * max(a.ndim, 1))(*a.shape)
    if a.dtype.kind in "US":
        raw = [str(x).encode() for x in a.ravel()]
        data = (Str * max(len(raw), 1))(*[Str(r, len(r)) for r in raw])
        v.dtype, code, bits, address = STRING, 3, 128, ctypes.addressof(data)
        keep += [raw, data]
    else:
        data = np.ascontiguousarray(a)
        v.dtype, code = DTYPES[a.dtype.name]
        bits, address = 8 * a.dtype.itemsize, data.ctypes.data
        keep.append(data)
    keep.append(shape)
    v.u.tensor = Tensor(address, 1, 0, a.ndim, code, bits, 1, shape, None, 0)
    return v


def from_value(v):
    if v.kind == 1:
        t = v.u.tensor
        shape = [t.shape[i] for i in range(t.ndim)]
        n = int(np.prod(shape, dtype=np.int64))
        if v.dtype == STRING:
            strs = (Str * n).from_address(t.data + t.byte_offset) if n else []
            return np.array([ctypes.string_at(s.data, s.size).decode() for s in strs],
                            dtype=str).reshape(shape)
        dtype = np.dtype(NAMES[v.dtype])
        raw = ctypes.string_at(t.data + t.byte_offset, n * dtype.itemsize) if n else b""
        return np.frombuffer(raw, dtype).reshape(shape)
    if v.kind == 2:
        return [from_value(v.u.seq.items[i]) for i in range(v.u.seq.n)]
    if v.kind == 3:
        keys = from_value(v.u.map.keys[0])
        values = from_value(v.u.map.values[0])
        return {str(k): float(x) for k, x in zip(keys, values)}
    return None


def call(lib, folder, nin, nout, threads):
    """Runs a shared object on FOLDER/input_I.npy; writes output_I.npy or .json there."""
    so = ctypes.CDLL(os.path.abspath(lib))
    names = subprocess.run(["nm", "-D", "--defined-only", lib], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    model = next(n for n in names if n.endswith("tcc_model"))
    table = next(n for n in names if n.endswith("tcc_api") or n.endswith("tcc_user_api"))
    api = Api.in_dll(so, table)
    keep, inst, ctx = [], P(), P()
    options = Options(size=ctypes.sizeof(Options), threads=threads)
    if api.load(ctypes.addressof(Value.in_dll(so, model)), ctypes.byref(options),
                ctypes.byref(inst)):
        sys.exit("error: " + api.inst_error(inst).decode())
    if api.context_new(inst, ctypes.byref(ctx)):
        sys.exit("error: " + api.error(ctx).decode())
    ins = (Value * max(nin, 1))(*[to_value(np.load(f"{folder}/input_{i}.npy"), keep)
                                  for i in range(nin)])
    outs = (Value * nout)()
    if api.run(ctx, ins, nin, outs, nout):
        sys.exit("error: " + api.error(ctx).decode())
    for i in range(nout):
        v = from_value(outs[i])
        if isinstance(v, np.ndarray):
            np.save(f"{folder}/output_{i}.npy", v)
        else:
            with open(f"{folder}/output_{i}.json", "w") as f:
                json.dump(v, f)
    api.context_free(ctx)
    api.unload(inst)


# --- the whole ------------------------------------------------------------------------------------

MODES = {"run": mode_run, "exe": mode_exe, "so": mode_so, "text": mode_text, "levels": mode_levels}


def load_cases(o, row, model):
    folder = f"{o.corpus}/data/{row['id']}"
    cases = [Case(f"{folder}/{f}") for f in sorted(os.listdir(folder))]
    if o.sets:
        cases = cases[:o.sets]
    if o.reduced and row["id"] in o.shapes:
        cases = [reduced(cases[0], model, o.shapes[row["id"]])]
    return cases


def judge(o, row):
    """-> (verdict, message)"""
    model = f"{o.models}/{row['id']}/model.onnx"
    if not os.path.exists(model):
        return "SKIP", f"no {model}"
    spread = max(map(float, row["ort_spread"].split()), default=0.0)
    limit = max(o.rtol, 8 * spread)
    tmp = tempfile.mkdtemp(prefix=row["id"] + ".", dir=o.tmp)
    start = time.time()
    errors = []
    try:
        cases = load_cases(o, row, model)
        for case, got in zip(cases, MODES[o.mode](o, model, cases, tmp)):
            errors.append(case.compare(got))
    except Failure as e:
        where = f"data {len(errors)}: " if errors else ""
        return "FAIL", where + str(e)
    finally:
        if not o.keep:
            shutil.rmtree(tmp)
    told = " ".join(f"{e:.2g}" for e in errors) or "none"
    told += f", {time.time() - start:.1f} s"
    if max(errors, default=0) > limit:
        return "FAIL", f"error {told}; at most {limit:.2g} is right"
    return "PASS", f"error {told}"


def read_shapes(path):
    shapes = {}
    with open(path) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                mid, *ports = line.split()
                pairs = (p.rsplit("=", 1) for p in ports)
                shapes[mid] = {n: tuple(map(int, filter(None, s.split("x")))) for n, s in pairs}
    return shapes


def options():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--corpus", required=True, help="folder with index.tsv and data")
    ap.add_argument("--models", help="folder of <id>/model.onnx (default: CORPUS/models)")
    ap.add_argument("--tcc", default="build/tcc-ml")
    ap.add_argument("--mode", choices=MODES, default="exe")
    ap.add_argument("--target")
    ap.add_argument("--simulate", action="store_true")
    ap.add_argument("--under", default="", help="command that runs executables: an emulator")
    ap.add_argument("--only", default="", help="ids, with commas")
    ap.add_argument("--first", action="store_true", help="only models marked `first`")
    ap.add_argument("--sets", type=int, default=0, help="at most so many data files a model")
    ap.add_argument("--reduced", action="store_true",
                    help="in the shapes of reduced.txt; onnxruntime is run for the outputs")
    ap.add_argument("--rtol", type=float, default=RTOL)
    ap.add_argument("--threads", type=int, default=0)
    ap.add_argument("--timeout", type=float, default=300)
    ap.add_argument("-j", type=int, default=1)
    ap.add_argument("--keep", action="store_true", help="keep compiled models and outputs")
    ap.add_argument("--tmp", help="where they go")
    ap.add_argument("rest", nargs="*", metavar="COMPILE-OPTION")
    o = ap.parse_args()
    o.models = o.models or o.corpus + "/models"
    o.tcc = os.path.abspath(o.tcc)
    o.shapes = read_shapes(os.path.dirname(os.path.abspath(__file__)) + "/reduced.txt")
    return o


def main():
    if sys.argv[1:2] == ["--call"]:
        lib, folder, nin, nout, threads = sys.argv[2:]
        return call(lib, folder, int(nin), int(nout), int(threads))
    o = options()
    if o.tmp:
        os.makedirs(o.tmp, exist_ok=True)
    with open(o.corpus + "/index.tsv", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t"))
    only = set(filter(None, o.only.split(",")))
    unknown = only - {r["id"] for r in rows}
    if unknown:
        sys.exit("no such model: " + " ".join(sorted(unknown)))
    rows = [r for r in rows if (not only or r["id"] in only) and (not o.first or r["first"] == "yes")]
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    with concurrent.futures.ThreadPoolExecutor(o.j) as pool:
        for row, (verdict, text) in zip(rows, pool.map(lambda r: judge(o, r), rows)):
            counts[verdict] += 1
            print(f"{verdict} {row['id']}: {text}", flush=True)
    print("%d passed, %d failed, %d skipped" % tuple(counts.values()))
    return 1 if counts["FAIL"] or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
