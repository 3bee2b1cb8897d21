#!/bin/sh
# --precision: operands of products and convolutions are rounded, and nothing else: results are those of
# numpy on rounded operands, weights are stored narrow, the ledger tells of it. A CPU without matrix units
# narrows weights that few rows share, and says what stays. Many rows spell out the same weights once.
. tests/cmd/lib
"$py" - "$tcc" "$t" <<'PY'
import subprocess
import sys
import numpy as np
from onnx import helper as h, numpy_helper, TensorProto as T, save

tcc, t = sys.argv[1:]
rng = np.random.default_rng(3)
w = rng.standard_normal((301, 133)).astype(np.float32)
k = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
nodes = [h.make_node("MatMul", ["a", "w"], ["p"]), h.make_node("Relu", ["p"], ["q"]),
         h.make_node("MatMul", ["q", "b"], ["y"]),
         h.make_node("Conv", ["x", "k"], ["z"], pads=[1, 1, 1, 1]),
         h.make_node("ReduceSum", ["a"], ["s"], keepdims=0), h.make_node("Neg", ["q"], ["u"])]
ports = {"a": ["n", 301], "b": [133, 33], "x": [1, 3, "h", 11]}
save(h.make_model(h.make_graph(nodes, "precision", [h.make_tensor_value_info(n, T.FLOAT, d) for n, d in ports.items()],
                               [h.make_tensor_value_info(n, T.FLOAT, None) for n in "yzsu"],
                               [numpy_helper.from_array(w, "w"), numpy_helper.from_array(k, "k")]),
                  opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{t}/m.onnx")


def bits_off(x, n, ties_even=True):
    u = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    half = (1 << (n - 1)) - 1 + (u >> n & 1) if ties_even else 1 << (n - 1)
    return ((u + half) >> n << n).astype(np.uint32).view(np.float32)


rounding = {"bf16": lambda x: bits_off(x, 16), "tf32": lambda x: bits_off(x, 13, False),
            "f16": lambda x: x.astype(np.float16).astype(np.float32), "f32": lambda x: x}
feeds = {"b": (133, 33), "x": (1, 3, 9, 11)}


def run(name, target, rows):
    r = rounding[name]
    units = target == "c"              # which rounds all operands
    ra = r if units else lambda x: x
    rw = r if units or name != "tf32" else lambda x: x
    x = {n: rng.standard_normal(s).astype(np.float32) for n, s in {**feeds, "a": (rows, 301)}.items()}
    args = []
    for n, v in x.items():
        np.save(f"{t}/{n}.npy", v)
        args += ["--input", f"{n}={t}/{n}.npy"]
    subprocess.run([f"{t}/{name}.{target}", *args, "--output-dir", t], check=True, stdout=subprocess.DEVNULL)
    q = np.maximum(ra(x["a"]).astype(np.float64) @ rw(w), 0).astype(np.float32)
    y = ra(q).astype(np.float64) @ ra(x["b"])
    v = np.pad(ra(x["x"]).astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    z = sum(np.einsum("nchw,oc->nohw", v[:, :, i:i + 9, j:j + 11], ra(k)[:, :, i, j])
            for i in range(3) for j in range(3))
    # a value within the accumulator's error of a tie may be rounded the other way
    scale = np.abs(y).max()
    np.testing.assert_allclose(np.load(f"{t}/output_0.npy"), y, 0, (1e-3 if units and name != "f32" else 2e-6) * scale)
    assert np.mean(np.abs(np.load(f"{t}/output_0.npy") - y) > 3e-6 * scale) < 0.2, name
    np.testing.assert_allclose(np.load(f"{t}/output_1.npy"), z, 1e-5, 1e-5)
    np.testing.assert_allclose(np.load(f"{t}/output_2.npy"), x["a"].sum(), 1e-4, 1e-4)
    # what else reads an operand reads it rounded, where operands are stored so
    off = np.abs(np.load(f"{t}/output_3.npy") + (q if name == "tf32" else ra(q))) > 3e-6 * np.abs(q).max()
    assert np.mean(off) < 0.02, (name, target, np.mean(off))


# of each target and precision: rows of the ledger, and weights that are stored narrow
for target, told, stored in (("native", (2, 1), 1), ("c", (0, 4), 2)):
    for name in rounding:
        subprocess.run([tcc, "compile", f"{t}/m.onnx", "--precision", name, "--target", target,
                        "-o", f"{t}/{name}.{target}"], check=True, stdout=subprocess.DEVNULL)
        for rows in (1, 5, 14, 75):
            run(name, target, rows)
        text = subprocess.run([tcc, "compile", f"{t}/m.onnx", "--precision", name, "--target", target, "--emit", "ir",
                               "-o", "-"], check=True, stdout=subprocess.PIPE, text=True).stdout
        stays, narrow = text.count('\nledger "stays_f32"'), text.count(f'_{name}" "approx"')
        want = (0, 0) if name == "f32" else (3, 0) if name == "tf32" and target == "native" \
            else (0, 3) if name == "tf32" else told
        assert (stays, narrow) == want, (target, name, stays, narrow)
        assert text.count(f"buf weight {name}") == (0 if name == "tf32" else stored if name != "f32" else 2), text
PY
expect 2 "--strict allows no" "$tcc" run "$t/m.onnx" --strict --precision bf16
"$tcc" opt "$t/m.onnx" --precision bf16 --stop-after precision -o "$t/m.ir" || fail "no dump"
grep -q "^module .* tensor precision bf16 " "$t/m.ir" || fail "the text does not say the precision"
"$tcc" opt "$t/m.ir" --stop-after precision -o "$t/n.ir" && sed s/n.ir.data/m.ir.data/ "$t/n.ir" | cmp - "$t/m.ir" ||
	fail "rounded twice"
