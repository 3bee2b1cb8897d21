#!/bin/sh
# Operands whose sizes are not known to be equal: one program adds equal ones, and broadcasts either where a
# size is 1, in vectors where none is.
tcc=${TCC_BUILD:-build}/tcc-ml t=$TCC_TMP
build/venv/bin/python - "$tcc" "$t" <<'PY'
import subprocess
import sys
import numpy as np
from onnx import helper as h, TensorProto as T, save

tcc, t = sys.argv[1:]
nodes = [h.make_node("Mul", ["a", "b"], ["p"]), h.make_node("Softmax", ["p"], ["q"], axis=1),
         h.make_node("MatMul", ["q", "w"], ["r"]), h.make_node("Add", ["r", "c"], ["y"])]
ports = {"a": ["n", "k"], "b": ["o", "l"], "w": ["i", "j"], "c": ["u", "v"]}
save(h.make_model(h.make_graph(nodes, "broadcast", [h.make_tensor_value_info(n, T.FLOAT, d) for n, d in ports.items()],
                               [h.make_tensor_value_info("p", T.FLOAT, None),
                                h.make_tensor_value_info("y", T.FLOAT, None)]),
                  opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{t}/m.onnx")
subprocess.run([tcc, "compile", f"{t}/m.onnx", "-o", f"{t}/exe"], check=True, stdout=subprocess.DEVNULL)
text = subprocess.run([tcc, "compile", f"{t}/m.onnx", "--emit", "ir", "--stage", "loop", "-o", f"{t}/m.ir"], check=True)
rng = np.random.default_rng(5)
for a, b, c in [((5, 37), (5, 37), (5, 9)), ((1, 37), (5, 37), (1, 9)), ((5, 1), (1, 37), (5, 1)), ((5, 37), (1, 1), (1, 1)),
                ((1, 1), (1, 1), (1, 1)), ((300, 70), (300, 70), (300, 9)), ((0, 37), (1, 37), (1, 9))]:
    k = max(a[1], b[1])
    feeds = {"a": a, "b": b, "w": (k, 9), "c": c}
    x = {n: rng.standard_normal(s).astype(np.float32) for n, s in feeds.items()}
    args = []
    for n, v in x.items():
        np.save(f"{t}/{n}.npy", v)
        args += ["--input", f"{n}={t}/{n}.npy"]
    subprocess.run([f"{t}/exe", *args, "--output-dir", t], check=True, stdout=subprocess.DEVNULL)
    p = x["a"] * x["b"]
    e = np.exp(p - p.max(1, keepdims=True)) if p.size else p
    y = e / e.sum(1, keepdims=True) @ x["w"] + x["c"]
    np.testing.assert_allclose(np.load(f"{t}/output_0.npy"), p, 1e-6)
    np.testing.assert_allclose(np.load(f"{t}/output_1.npy"), y, 1e-4, 1e-5)
PY
