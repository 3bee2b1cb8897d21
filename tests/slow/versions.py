"""The official one-node tests with the operator sets of every older version of their operators that
still takes them, and onnxruntime's results, which are also the standard's; where onnxruntime has not that
version, the standard's. usage: versions.py TESTS OUT"""
import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

ort.set_default_logger_severity(4)
tests, out = sys.argv[1:]
MOST = 3                       # tests of one version
# random; or where (as in DFT) onnxruntime is known to be wrong and the official test says what is right
SKIP = {"bernoulli", "bernoulli_double", "bernoulli_seed", "maxunpool_export_with_output_shape",
        "resize_downsample_scales_cubic_align_corners", "if_seq", "if_opt"}
OTHER_AXES = {"Hardmax", "LogSoftmax", "Softmax"}      # before 13 over all axes from one on
older = {}
for s in onnx.defs.get_all_schemas_with_history():
    if not s.deprecated:
        older.setdefault((s.domain, s.name), []).append(s.since_version)


def session(model):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), o)


def reversed_to(model, domain, version):
    m = onnx.ModelProto()
    m.CopyFrom(model)
    for o in m.opset_import:
        if o.domain == domain:
            o.version = version
    m.ir_version = 8 if version < 21 else 10
    return m


def same(want, now):
    """Does onnxruntime agree with the standard's numpy code, which gives the newest version's results?"""
    try:
        for w, n in zip(want, now):
            assert w.shape == n.shape
            np.testing.assert_allclose(*(np.asarray(a, a.dtype if a.dtype.kind in "OUb" else float) for a in (w, n)), 1e-3, 1e-5)
        return True
    except AssertionError:
        return False


count = {}
for path in sorted(glob.glob(f"{tests}/node/test_*/model.onnx")):
    name = os.path.basename(os.path.dirname(path))[5:]
    model = onnx.load(path)
    if len(model.graph.node) != 1 or name in SKIP or name.startswith("dft"):
        continue
    node = model.graph.node[0]
    data = f"{os.path.dirname(path)}/test_data_set_0"
    try:
        ins, now = ([numpy_helper.to_array(onnx.TensorProto.FromString(open(f"{data}/{k}_{i}.pb", "rb").read()))
                     for i in range(len(v))] for k, v in (("input", model.graph.input), ("output", model.graph.output)))
    except Exception:          # a sequence or an optional
        continue
    for v in sorted(older.get((node.domain, node.op_type), []))[:-1]:
        key = node.domain, node.op_type, v
        if count.get(key, 0) == MOST or (name == "prelu_broadcast" and v < 7):
            continue
        m = reversed_to(model, node.domain, v)
        try:
            onnx.checker.check_model(m, full_check=True)
        except Exception:      # another form
            continue
        try:
            want = session(m).run(None, {i.name: a for i, a in zip(m.graph.input, ins)})
        except Exception:      # not one that onnxruntime has
            want = now
        if any(isinstance(w, list) for w in want):
            continue
        if not same(want, now) and node.op_type not in OTHER_AXES:
            sys.exit(f"{node.op_type} {v} {name}: onnxruntime differs from the standard's numpy code")
        count[key] = count.get(key, 0) + 1
        d = f"{out}/{node.op_type}_{v}_{name}/test_data_set_0"
        os.makedirs(d)
        onnx.save(m, f"{os.path.dirname(d)}/model.onnx")
        for kind, values in (("input", ins), ("output", want)):
            for i, a in enumerate(values):
                with open(f"{d}/{kind}_{i}.pb", "wb") as f:
                    f.write(numpy_helper.from_array(np.asarray(a)).SerializeToString())
print(f"{sum(count.values())} tests of {len(count)} versions")
