"""What programs share that write cases of a single node with onnxruntime's results into the folder that
is their last argument."""
import os
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper, numpy_helper

ort.set_default_logger_severity(4)
out = sys.argv[-1]
rng = np.random.RandomState(1)
ML, MS, F = "ai.onnx.ml", "com.microsoft", T.FLOAT
refused = []


def f(*s):
    return rng.randn(*s).astype(np.float32)


def u8(*s):
    return rng.randint(0, 256, s).astype(np.uint8)


def i8(*s):
    return rng.randint(-128, 128, s).astype(np.int8)


def scalar(v, t=np.float32):
    return np.array(v, t)


def proto(a, name=""):
    if a.dtype.kind in "OU":
        return helper.make_tensor(name, T.STRING, a.shape, [str(x).encode() for x in a.ravel()])
    return numpy_helper.from_array(a, name)


def run(model, feed, alias):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1         # DynamicQuantizeLSTM's ranges depend on it
    session = ort.InferenceSession(model.SerializeToString(), options)
    if not alias:
        return session.run(None, feed)
    bind = session.io_binding()
    values = {n: ort.OrtValue.ortvalue_from_numpy(a.copy()) for n, a in feed.items()}
    for n, v in values.items():
        bind.bind_ortvalue_input(n, v)
    for o in session.get_outputs():
        if o.name in alias:
            bind.bind_ortvalue_output(o.name, values[alias[o.name]])
        else:
            bind.bind_output(o.name)
    session.run_with_iobinding(bind)
    return bind.copy_outputs_to_cpu()


def single(op, ins, outs, domain="", inits=(), **attrs):
    """A model of one node, and what it is fed. ins: arrays or None, named a, b, c ...; outs: element types
    or None, named y0, y1 ...; inits: names of constants."""
    names = [chr(97 + i) if a is not None else "" for i, a in enumerate(ins)]
    while names and not names[-1]:
        names.pop()
    given = {n: a for n, a in zip(names, ins) if n}
    onames = [f"y{i}" if t else "" for i, t in enumerate(outs)]
    attrs = {k.rstrip("_"): v for k, v in attrs.items()}
    node = helper.make_node(op, names, onames, domain=domain, **attrs)
    feed = {n: a for n, a in given.items() if n not in inits}
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, proto(a).data_type, a.shape) for n, a in feed.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(onames, outs) if t],
        initializer=[proto(a, n) for n, a in given.items() if n in inits])
    return helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 21), helper.make_opsetid(ML, 3), helper.make_opsetid(MS, 1)]), feed


def save(name, model, feed, results):
    data = f"{out}/{name}/test_data_set_0"
    os.makedirs(data)
    onnx.save(model, f"{out}/{name}/model.onnx")
    for kind, values in (("input", feed.values()), ("output", results)):
        for i, v in enumerate(values):
            with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                file.write(proto(v).SerializeToString())


def case(name, op, ins, outs, domain="", inits=(), alias=None, **attrs):
    """With onnxruntime's results. alias: outputs that must have the memory of an input, by its name."""
    model, feed = single(op, ins, outs, domain, inits, **attrs)
    try:
        results = run(model, feed, alias)
    except Exception as e:  # an option that it does not have
        refused.append(f"{name}: {str(e)[:100]}")
        return
    save(name, model, feed, results)


def expect(name, op, ins, results, domain="", inits=(), **attrs):
    """With given results: arrays, None for those not asked for."""
    results = [None if r is None else np.asarray(r, order="C") for r in results]
    types = [None if r is None else proto(r).data_type for r in results]
    model, feed = single(op, ins, types, domain, inits, **attrs)
    save(name, model, feed, [r for r in results if r is not None])


def cases_in(kind):
    """Of a float type: the type, g for random doubles that it holds, and ok: as expect, with doubles given and
    expected in the type, of com.microsoft."""
    t = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}[kind]

    def g(*s):
        return f(*s).astype(t).astype(np.float64)

    def cast(a):
        return None if a is None else np.asarray(a).astype(t) if np.asarray(a).dtype == np.float64 else np.asarray(a)

    def ok(name, op, ins, outs, **kw):
        expect(name, op, [cast(a) for a in ins], [cast(a) for a in outs], MS, **kw)
    return t, g, ok


def result(op, ins, outs=(F,), domain="", **attrs):
    """onnxruntime's results of an operator."""
    return run(*single(op, ins, outs, domain, **attrs), None)


def report():
    for r in refused:
        print("onnxruntime refuses", r)
