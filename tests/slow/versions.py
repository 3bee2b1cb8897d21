"""The official one-node tests with the operator sets of every older version of their operators that
still takes them, and onnxruntime's results. usage: versions.py TESTS OUT"""
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


count = {}
for path in sorted(glob.glob(f"{tests}/node/test_*/model.onnx")):
    name = os.path.basename(os.path.dirname(path))[5:]
    model = onnx.load(path)
    if len(model.graph.node) != 1 or name in SKIP or name.startswith("dft"):
        continue
    node = model.graph.node[0]
    data = f"{os.path.dirname(path)}/test_data_set_0"
    try:
        ins = [numpy_helper.to_array(onnx.TensorProto.FromString(open(f"{data}/input_{i}.pb", "rb").read()))
               for i in range(len(model.graph.input))]
    except Exception:          # a sequence or an optional
        continue
    for v in sorted(older.get((node.domain, node.op_type), []))[:-1]:
        key = node.domain, node.op_type, v
        if count.get(key, 0) == MOST:
            continue
        m = reversed_to(model, node.domain, v)
        try:
            onnx.checker.check_model(m)
            want = session(m).run(None, {i.name: a for i, a in zip(m.graph.input, ins)})
        except Exception:      # another form, or none that onnxruntime has
            continue
        if any(isinstance(w, list) for w in want):
            continue
        count[key] = count.get(key, 0) + 1
        d = f"{out}/{node.op_type}_{v}_{name}/test_data_set_0"
        os.makedirs(d)
        onnx.save(m, f"{os.path.dirname(d)}/model.onnx")
        for kind, values in (("input", ins), ("output", want)):
            for i, a in enumerate(values):
                with open(f"{d}/{kind}_{i}.pb", "wb") as f:
                    f.write(numpy_helper.from_array(np.asarray(a)).SerializeToString())
print(f"{sum(count.values())} tests of {len(count)} versions")
