"""A matrix of operators, types and edge inputs as cases in the form of the backend tests, many nodes to a
model. usage: [SHARE=K/N] [SEEDS=N] matrix.py TCC TESTS OUT

The official one-node tests say how each operator is called; each is varied: other element types, other
ranks and broadcasts (of rows that are elementwise, as `tcc-ml ops` tells), sizes of 0 and 1, negative axes,
NaN, infinities, -0, subnormals, extreme integers, ties. A variant stands if an oracle takes it: onnxruntime,
the standard's reference, or both, which then must agree; else oracles.py says whom the text follows.
SHARE writes part K of N of the cases, SEEDS varies so many tests of each operator; CONTESTED=FOLDER writes
the cases in which the oracles differ there, with the results of each."""
import glob
import json
import multiprocessing
import os
import subprocess
import sys
import warnings
import zlib

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.simplefilter("ignore")
np.seterr(all="ignore")
ort.set_default_logger_severity(4)
SEEDS, NODES = int(os.environ.get("SEEDS", 2)), 24                   # tests varied for each operator; nodes of a model
ORT_OPSET = 26                         # its newest
TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
         "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
         "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "bool": np.bool_}
FLOATS = {np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)}
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Dropout"}
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from oracles import PARTS  # noqa: E402


class Case:
    def __init__(self, name, node, ins, opset):
        self.name, self.node, self.ins, self.opset = name, node, ins, opset      # ins: one a name of node.input, or None
        self.want, self.sure = None, False       # sure: the reference alone does not say that it is valid

    def but(self, name, node=None, ins=None, sure=False):
        c = Case(f"{self.name}_{name}", node or self.node, ins or self.ins, self.opset)
        c.sure = sure
        return c

    def model(self, opset):
        ins = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
               for n, a in zip(self.node.input, self.ins) if n]
        g = helper.make_graph([self.node], "g", ins, [onnx.ValueInfoProto(name=o) for o in self.node.output if o])
        return helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)

    def feed(self):
        return {n: a for n, a in zip(self.node.input, self.ins) if n}


def on_ort(case):
    since = onnx.defs.get_schema(case.node.op_type, case.opset, "").since_version
    if since > ORT_OPSET:
        return None
    feed = {}
    for n, a in case.feed().items():
        if a.dtype == ml_dtypes.bfloat16:
            return None
        feed[n] = a
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = 1
    try:
        s = ort.InferenceSession(case.model(min(case.opset, ORT_OPSET)).SerializeToString(), o)
        return s.run(None, feed)
    except Exception:
        return None


def on_reference(case):
    try:
        r = ReferenceEvaluator(case.model(case.opset)).run(None, case.feed())
        return [np.asarray(v) for v in r]
    except Exception:
        return None


def wide(a):
    return a if a.dtype.kind in "OUSb" else a.astype(np.float64) if a.dtype in FLOATS else a.astype(object)


def agree(a, b):
    """Same shapes, types and values, within what the types can hold."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.dtype in FLOATS:
            tol = 2e-2 if x.dtype == ml_dtypes.bfloat16 else 2e-3 if x.dtype == np.float16 else 1e-4
            if not np.allclose(wide(x), wide(y), tol, tol / 10, equal_nan=True):
                return False
        elif not np.array_equal(x, y):
            return False
    return True


def typed(case, results):
    """Are the results of the standard's types? The reference lets numpy choose some."""
    m = onnx.shape_inference.infer_shapes(case.model(case.opset), strict_mode=False)
    return [helper.np_dtype_to_tensor_dtype(v.dtype) for v in results] == [o.type.tensor_type.elem_type for o in m.graph.output]


def settle(case):
    """Sets what is right; False if no oracle can say."""
    by = next((w for (op, part), w in PARTS.items() if op == case.node.op_type and part in case.name), "")
    if by == "none":
        return False
    a = None if by == "text" else on_ort(case)
    b = None if by == "ort" else on_reference(case)
    if a is not None and any(isinstance(v, (list, dict)) for v in a):
        return False
    a, b = (v if v is not None and typed(case, v) else None for v in (a, b))
    if a is None and case.sure:
        return False
    if a is None and b is None:
        return False
    if a is not None and b is not None and not agree(a, b):
        contested.append((case, a, b))
        return False
    case.want = a if a is not None else b
    return all(isinstance(w, np.ndarray) and w.dtype.kind != "O" for w in case.want)


contested, kinds = [], {}


def work(pipe):
    """The oracles' process: takes cases, gives back what is right and where they differ."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        case = pipe.recv()
        del contested[:]
        pipe.send((case.want if settle(case) else None, contested[0][1:] if contested else None))


class Oracles:
    """Oracles crash or hang on some cases: they run in a process that is replaced then."""

    def __init__(self):
        self.process = None

    def settled(self, case):
        if self.process is None:
            self.pipe, other = multiprocessing.Pipe()
            self.process = multiprocessing.Process(target=work, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.pipe.send(case)
            if not self.pipe.poll(20):
                raise EOFError
            case.want, differ = self.pipe.recv()
        except (EOFError, OSError):
            self.process.kill()
            self.process = None
            return False
        if differ:
            contested.append((case, *differ))
        return case.want is not None


# ---- variants -----------------------------------------------------------------------------------------

def data_operands(case):
    """Positions of operands of the first result's type: what is computed with, not what says how."""
    s = onnx.defs.get_schema(case.node.op_type, case.opset, "")
    var = s.outputs[0].type_str
    same = [i for i in range(len(case.ins)) if formal(s, i).type_str == var and case.ins[i] is not None]
    return same or [0]


def formal(schema, i):
    return schema.inputs[min(i, len(schema.inputs) - 1)]


def retyped(case):
    s = onnx.defs.get_schema(case.node.op_type, case.opset, "")
    for c in s.type_constraints:
        at = [i for i in range(len(case.ins)) if case.ins[i] is not None and formal(s, i).type_str == c.type_param_str]
        if not at or case.ins[at[0]].dtype.kind in "OU":
            continue
        for name in c.allowed_type_strs:
            t = TYPES.get(name[7:-1])
            if t is None or np.dtype(t) == case.ins[at[0]].dtype:
                continue
            ins = list(case.ins)
            for i in at:
                a = ins[i] if np.dtype(t).kind != "u" else np.abs(ins[i]) if ins[i].dtype.kind in "fi" else ins[i]
                ins[i] = np.nan_to_num(a).astype(t) if a.dtype.kind == "f" and np.dtype(t) not in FLOATS else a.astype(t)
            yield case.but(np.dtype(t).name, ins=ins)


def special_values(dtype, which):
    if dtype in FLOATS:
        i = ml_dtypes.finfo(dtype)
        if which == "odd":
            return [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0]
        if which == "ties":
            return [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.0]
        return [float(i.smallest_subnormal), -float(i.smallest_subnormal), float(i.max), float(i.min), float(i.tiny), -0.0]
    i = np.iinfo(dtype)
    return [i.max, i.min, 0, 1, i.max - 1, i.max // 2]


def specials(case):
    at = data_operands(case)
    dtype = case.ins[at[0]].dtype
    if dtype.kind in "bOU" or dtype.kind in "iu" and kinds.get(case.node.op_type) != "elementwise":
        return
    for which in ("odd", "ties", "extreme") if dtype in FLOATS else ("extreme",):
        ins = list(case.ins)
        values = special_values(dtype, which)
        for k, i in enumerate(at):
            if ins[i].dtype != dtype or not ins[i].size:
                continue
            a = ins[i].copy().reshape(-1)
            some = values[k % len(values):] + values[:k % len(values)]
            n = a.size if kinds.get(case.node.op_type) == "elementwise" else max(1, a.size // 3)
            where = np.arange(a.size)[:: max(1, a.size // n)][:n]
            a[where] = np.resize(np.array(some, object), len(where)).astype(dtype)
            ins[i] = a.reshape(ins[i].shape)
        yield case.but(which, ins=ins, sure=kinds.get(case.node.op_type) != "elementwise")


def resized(case):
    """A dimension of 0, 1: along it in the first operand, or in all that have it there."""
    x = case.ins[0]
    if x is None:
        return
    for d in sorted({0, x.ndim // 2, x.ndim - 1}) if x.ndim else ():
        for n in (0, 1):
            if x.shape[d] == n:
                continue
            for how in ("one", "all"):
                ins = list(case.ins)
                for i, a in enumerate(ins):
                    if a is not None and (i == 0 or how == "all" and a.ndim == x.ndim and a.shape[d] == x.shape[d]):
                        ins[i] = np.take(a, range(min(n, a.shape[d])), d)
                if how == "all" and sum(a is not b for a, b in zip(ins, case.ins)) < 2:
                    continue
                yield case.but(f"dim{d}_{n}_{how}", ins=ins, sure=kinds.get(case.node.op_type) != "elementwise")


def ranked(case):
    """Ranks 0 to 6 and broadcasts of elementwise operators."""
    at = [i for i, a in enumerate(case.ins) if a is not None]
    pool = [np.resize(case.ins[i].reshape(-1), 97) for i in at]
    shapes = [(), (1,), (3,), (2, 3), (1, 3, 1), (2, 1, 3, 2), (1, 2, 1, 2, 3), (2, 1, 2, 1, 2, 3), (0,), (2, 0, 3)]
    for k, full in enumerate(shapes):
        ins = list(case.ins)
        for n, i in enumerate(at):
            shape = full
            if n and k % 3 == 1:
                shape = full[1:]
            elif n and k % 3 == 2:
                shape = tuple(1 if j % 2 == n % 2 else d for j, d in enumerate(full))
            ins[i] = np.resize(pool[n], shape).astype(case.ins[i].dtype)
        yield case.but(f"rank{len(full)}_{k}", ins=ins)


def from_the_end(case):
    for k, a in enumerate(case.node.attribute):
        if a.name not in ("axis", "axes") or not case.ins or case.ins[0] is None:
            continue
        node = onnx.NodeProto()
        node.CopyFrom(case.node)
        b, rank = node.attribute[k], case.ins[0].ndim
        if a.name == "axis" and 0 <= a.i < rank:
            b.i = a.i - rank
        elif a.name == "axes" and all(0 <= i < rank for i in a.ints):
            b.ints[:] = [i - rank for i in a.ints]
        else:
            continue
        yield case.but("from_end", node=node)


def variants(case):
    yield case
    typed = [case, *retyped(case)]
    for c in typed[1:]:
        yield c
    for c in typed:
        yield from specials(c)
    yield from resized(case)
    yield from from_the_end(case)
    if kinds.get(case.node.op_type) == "elementwise":
        for c in typed[:4]:
            yield from ranked(c)


# ---- seeds and bundles -----------------------------------------------------------------------------------

def load(path):
    m = onnx.load(path)
    if len(m.graph.node) != 1 or m.graph.node[0].domain not in ("", "ai.onnx") or m.graph.node[0].op_type in RANDOM:
        return None
    if any(a.type == onnx.AttributeProto.GRAPH for a in m.graph.node[0].attribute):
        return None
    data, ins = f"{os.path.dirname(path)}/test_data_set_0", {}
    for i, v in enumerate(m.graph.input):
        if v.type.WhichOneof("value") != "tensor_type":
            return None
        with open(f"{data}/input_{i}.pb", "rb") as f:
            ins[v.name] = numpy_helper.to_array(T.FromString(f.read()))
    node = m.graph.node[0]
    if any(a.dtype.kind not in "fiub" or a.dtype.itemsize > 8 for a in ins.values()) or sum(a.size for a in ins.values()) > 4000:
        return None
    if not ins or onnx.defs.get_schema(node.op_type).since_version > m.opset_import[0].version:
        return None                     # an old form
    name = os.path.basename(os.path.dirname(path))[5:]
    return Case(name, node, [ins.get(n) for n in node.input], m.opset_import[0].version)


def seeds(tests):
    count = {}
    for path in sorted(glob.glob(f"{tests}/node/test_*/model.onnx")):
        c = load(path)
        if c is None or count.get(c.node.op_type, 0) == SEEDS:
            continue
        count[c.node.op_type] = count.get(c.node.op_type, 0) + 1
        yield c


def write(out, name, cases):
    """One model of all the cases' nodes."""
    nodes, ins, outs, values, wants = [], [], [], [], []
    for k, c in enumerate(cases):
        node = onnx.NodeProto()
        node.CopyFrom(c.node)
        node.name = c.name
        node.input[:] = [f"c{k}_{n}" if n else "" for n in c.node.input]
        node.output[:] = [f"{c.name}__{n}" if n else "" for n in c.node.output]
        nodes.append(node)
        for n, a in zip(c.node.input, c.ins):
            if n and f"c{k}_{n}" not in [v.name for v in ins]:
                ins.append(helper.make_tensor_value_info(f"c{k}_{n}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape))
                values.append(a)
        for n, w in zip((n for n in node.output if n), c.want):
            outs.append(helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(w.dtype), None))
            wants.append(w)
    opset = max(c.opset for c in cases)
    m = helper.make_model(helper.make_graph(nodes, "g", ins, outs), opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    d = f"{out}/{name}/test_data_set_0"
    os.makedirs(d)
    onnx.save(m, f"{out}/{name}/model.onnx")
    low = any(w.dtype == ml_dtypes.bfloat16 for c in cases for w in c.want)
    half = any(w.dtype == np.float16 for c in cases for w in c.want)
    with open(f"{out}/{name}/data.json", "w") as f:
        json.dump({"rtol": 1.6e-2 if low else 2e-3 if half else 1e-4, "atol": 8e-3 if low else 1e-3 if half else 1e-6}, f)
    for kind, arrays in (("input", values), ("output", wants)):
        for i, a in enumerate(arrays):
            with open(f"{d}/{kind}_{i}.pb", "wb") as f:
                f.write(numpy_helper.from_array(a).SerializeToString())


def main():
    tcc, tests, out = sys.argv[1:4]
    k, n = map(int, os.environ.get("SHARE", "0/1").split("/"))
    rows = json.loads(subprocess.run([tcc, "ops", "--json"], capture_output=True, check=True).stdout)["operators"]
    kinds.update({r["onnx"]: r["kind"] for r in rows if r.get("onnx")})
    groups, seen, total = {}, set(), 0
    oracles = Oracles()
    for seed in seeds(tests):
        chosen = []
        for c in variants(seed):
            if c.name not in seen and zlib.crc32(c.name.encode()) % n == k:
                seen.add(c.name)
                chosen.append(c)
        if os.environ.get("VERBOSE"):
            print(seed.name, len(chosen), file=sys.stderr, flush=True)
        for c in filter(oracles.settled, chosen):
            t = c.want[0].dtype
            key = "low" if t == ml_dtypes.bfloat16 else "half" if t == np.float16 else "full"
            groups.setdefault((key, c.opset), []).append(c)
            total += 1
    os.makedirs(out, exist_ok=True)
    for (key, opset), cases in sorted(groups.items()):
        size = int(os.environ.get("NODES", NODES))
        for i in range(0, len(cases), size):
            write(out, f"{key}_{opset}_{i // size}" if size > 1 else cases[i].name, cases[i:i + size])
    print(f"{total} cases")
    if contested:
        for c, a, b in contested:
            print("the oracles differ:", c.node.op_type, c.name)
            if os.environ.get("CONTESTED"):
                for w, v in (("ort", a), ("ref", b)):
                    c.want = v
                    try:
                        write(f"{os.environ['CONTESTED']}/{w}", c.name, [c])
                    except Exception as e:
                        print("   ", w, e)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
