#!/bin/sh
# Attention by its form is one kernel, with the evaluator's results at odd sizes, tails, masks, heads that
# share keys, rows without keys and every float type; --strict keeps the exact kernels.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

out = sys.argv[1]


def save(name, build, inputs, elem=T.FLOAT, results=1):
    nodes, consts = [], []

    def const(v, dtype):
        consts.append(nh.from_array(np.asarray(v, dtype), f"c{len(consts)}"))
        return consts[-1].name

    def node(op, *operands, n=1, **attrs):
        names = [f"v{len(nodes)}_{i}" for i in range(n)]
        nodes.append(h.make_node(op, operands, names, **attrs))
        return names[0] if n == 1 else names

    got = build(node, const)
    got = [got] if isinstance(got, str) else got
    ins = [h.make_tensor_value_info(n, e if isinstance(e, int) else elem, d) for n, d, e in inputs]
    graph = h.make_graph(nodes, name, ins, [h.make_tensor_value_info(g, elem, None) for g in got], consts)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10), f"{out}/{name}.onnx")


qkv = [("q", ["b", 3, "m", 20], 0), ("k", ["b", 3, "n", 20], 0), ("v", ["b", 3, "n", 9], 0)]
qkv = [(n, d, None) for n, d, _ in qkv]
f = np.float32


# as frameworks spell it: scale, a mask of the row and one of the keys, softmax
def plain(node, const):
    s = node("MatMul", node("Mul", "q", const(0.25, f)), node("Transpose", "k", perm=[0, 1, 3, 2]))
    s = node("Add", node("Add", s, "mask"), "row")
    return node("Relu", node("MatMul", node("Softmax", s, axis=-1), "v"))


save("plain", plain, qkv + [("mask", ["b", 1, 1, "n"], None), ("row", ["m", 1], None)])
# the mask's keys are as many only because the second product requires it
save("loose", plain, qkv + [("mask", ["b", 1, 1, "t"], None), ("row", ["m", 1], None)])


# a bias and a choice for each query and key, of several types, and one that the keys reverse
def biased(node, const):
    s = node("Add", node("MatMul", "q", node("Transpose", "k", perm=[0, 1, 3, 2])), "bias")
    s = node("Where", "keep", node("Add", s, node("Cast", "half", to=T.FLOAT)), const(-np.inf, f))
    s = node("Add", s, node("Transpose", "across", perm=[0, 1, 3, 2]))
    return node("MatMul", node("Softmax", s, axis=-1), "v")


save("biased", biased, qkv + [("bias", [1, 3, "m", "n"], None), ("keep", ["b", 1, "m", "n"], T.BOOL),
    ("half", ["m", "n"], T.FLOAT16), ("across", [1, 1, "n", "m"], None)])


# keys and values come of one projection with the heads side by side, keys stored as they are
def heads(node, const):
    rng = np.random.default_rng(3)
    w = [const(rng.standard_normal((24, 24)) / 5, f) for _ in range(3)]
    shape = const([0, -1, 4, 6], np.int64)
    q, k, v = (node("Reshape", node("MatMul", "x", i), shape) for i in w)
    s = node("MatMul", node("Transpose", q, perm=[0, 2, 1, 3]), node("Transpose", k, perm=[0, 2, 3, 1]))
    y = node("MatMul", node("Softmax", s, axis=-1), node("Transpose", v, perm=[0, 2, 1, 3]))
    return node("Reshape", node("Transpose", y, perm=[0, 2, 1, 3]), const([0, -1, 24], np.int64))


save("heads", heads, [("x", ["b", "m", 24], None)])

# the operator: heads share keys, causal, a cap; in four types; the scores are asked for as well
grouped = [("q", ["b", 6, "m", 8], None), ("k", ["b", 2, "n", 8], None), ("v", ["b", 2, "n", 5], None)]
for name, elem in ("f32", T.FLOAT), ("f16", T.FLOAT16), ("bf16", T.BFLOAT16), ("f64", T.DOUBLE):
    save("op_" + name, lambda node, const: node("Attention", "q", "k", "v", is_causal=1, softcap=3.0), grouped, elem)
save("scores", lambda node, const: (lambda r: [r[0], r[3]])(node("Attention", "q", "k", "v", n=4)), grouped)


# rows all of whose first 300 keys are masked, and rows without keys
def masked(node, const):
    n = node("Gather", node("Shape", "k"), const(2, np.int64))
    m = node("Gather", node("Shape", "q"), const(2, np.int64))
    zero, one = const(0, np.int64), const(1, np.int64)
    keys = node("Range", zero, n, one)
    rows = node("Unsqueeze", node("Range", zero, m, one), const([1], np.int64))
    ok = node("GreaterOrEqual", keys, node("Mul", rows, const(150, np.int64)))
    s = node("MatMul", "q", node("Transpose", "k", perm=[0, 1, 3, 2]))
    return node("MatMul", node("Softmax", node("Where", ok, s, const(-np.inf, f)), axis=-1), "v")


save("masked", masked, qkv)


# a score beside those of the keys (a sink): before them with a value of its own, behind them without
def sink(first):
    def build(node, const):
        s = node("MatMul", "q", node("Transpose", "k", perm=[0, 1, 3, 2]))
        p = node("Softmax", node("Concat", *(["sink", s] if first else [s, "sink"]), axis=3), axis=-1)
        if first:
            return node("MatMul", p, node("Concat", "none", "v", axis=2))
        ends = [const([i], np.int64) for i in (0, -1, 3)]
        return node("MatMul", node("Slice", p, *ends), "v")
    return build


column = [("sink", ["b", 3, "m", 1], None)]
save("sink_first", sink(True), qkv + column + [("none", ["b", 3, 1, 9], None)])
save("sink_last", sink(False), qkv + column)
PY

one() {
	"$tcc" inspect "$t/$1.onnx" | grep -q 'class=attention' || fail "$1 is not one kernel"
	"$tcc" inspect "$t/$1.onnx" | grep -q online_softmax || fail "$1 is not in the ledger"
	"$tcc" inspect --strict "$t/$1.onnx" | grep -q 'class=attention' && fail "$1 is inexact with --strict"
	return 0
}
same() {
	model=$1
	shift
	"$tcc" verify "$t/$model.onnx" "$@" >"$t/out" 2>&1 || fail "$model $*: $(cat "$t/out")"
}
near="--rtol 1e-4 --atol 1e-5"
for s in "2 7 5" "1 1 300" "1 97 257" "2 13 64" "1 200 513" "1 5 0" "1 0 5"; do
	set -- $s
	same plain --dim "b=$1" --dim "m=$2" --dim "n=$3" $near
	same op_f32 --dim "b=$1" --dim "m=$2" --dim "n=$3" $near
done
same masked --dim b=2 --dim m=5 --dim n=513 $near
for s in "2 3 7" "1 16 48" "2 97 213" "1 40 16" "1 35 9"; do
	set -- $s
	same biased --dim "b=$1" --dim "m=$2" --dim "n=$3" $near
	[ "$1" = 2 ] || same biased --dim "b=$1" --dim "m=$2" --dim "n=$3" --target x86-64-v2 $near
done
same biased --dim b=1 --dim m=35 --dim n=37 --target c $near
for model in sink_first sink_last; do
	same $model --dim b=2 --dim m=3 --dim n=600 $near
done
# sizes that are not known when it is compiled: few queries and many
"$tcc" inspect "$t/plain.onnx" | grep -q 'class=attention.*across' || fail "no lanes across queries"
for s in "2 1 300" "1 7 40" "2 8 13" "1 97 257" "1 200 513"; do
	set -- $s
	"$py" - "$t" $s <<'PY' && "$tcc" run "$t/plain.onnx" --input "$t/in.npz" --output-dir "$t/run" &&
import sys
import numpy as np
out, b, m, n = sys.argv[1], *map(int, sys.argv[2:5])
r = np.random.default_rng(b + m + n)
q, k, v, mask, row = (r.standard_normal(d).astype(np.float32) for d in (
    (b, 3, m, 20), (b, 3, n, 20), (b, 3, n, 9), (b, 1, 1, n), (m, 1)))
mask[..., :n // 2] = -np.inf
np.savez(out + "/in.npz", q=q, k=k, v=v, mask=mask, row=row)
s = (0.25 * q @ k.transpose(0, 1, 3, 2) + mask + row).astype(np.float64)
p = np.exp(s - s.max(-1, keepdims=True))
np.save(out + "/want.npy", np.maximum(p / p.sum(-1, keepdims=True) @ v, 0))
PY
	"$py" -c 'import sys, numpy as np
np.testing.assert_allclose(np.load(sys.argv[1]), np.load(sys.argv[2]), 1e-5, 2e-6)' "$t/run/output_0.npy" "$t/want.npy" ||
		fail "plain at $s"
done
for target in x86-64-v2 c; do
	same plain --dim b=1 --dim m=97 --dim n=257 --target $target $near
done
for s in "1 1" "2 31" "1 300"; do
	same heads --dim "b=${s% *}" --dim "m=${s#* }" $near
done
# blocks, tails, masked blocks, vectors and single elements on both kinds of GPU, with the simulator's checks
for target in sm_80 gfx942; do
	same plain --dim b=1 --dim m=33 --dim n=70 --target $target --simulate $near
	same plain --dim b=1 --dim m=2 --dim n=0 --target $target --simulate $near
	same masked --dim b=1 --dim m=3 --dim n=310 --target $target --simulate $near
	same op_f32 --dim b=1 --dim m=35 --dim n=130 --target $target --simulate $near
	same op_f16 --dim b=1 --dim m=5 --dim n=3 --target $target --simulate --rtol 4e-3 --atol 2e-3
	same heads --dim b=1 --dim m=35 --target $target --simulate $near
	same op_f64 --dim b=1 --dim m=34 --dim n=35 --target $target --simulate --rtol 1e-9 --atol 1e-12
	same scores --dim b=1 --dim m=6 --dim n=67 --target $target --simulate $near
done
same op_f64 --rtol 1e-9 --atol 1e-12
same op_f16 --rtol 4e-3 --atol 2e-3
same op_bf16 --rtol 3e-2 --atol 2e-2
same loose --dim b=2 --dim m=40 --dim n=70 --dim t=70 $near
for model in plain loose biased heads op_f32 op_f16 op_bf16 op_f64 scores masked; do
	one $model
	[ $model != ${model#op_} ] || same $model $near
done
# keys that no row of a block may look at are not looked at
"$tcc" compile "$t/op_f32.onnx" --emit ir --stage loop -o "$t/op.ir" && grep -q 'let %[0-9]* = min(%[0-9]* + %[0-9]*, n)' "$t/op.ir" ||
	fail "a causal mask leaves no block out"
