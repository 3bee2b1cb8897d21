#!/bin/sh
# Products in blocks of rows, with panels packed and fetched ahead, agree with the evaluator: sizes that fill no
# tile, more rows than the second cache holds, batches, two inputs; the choices stand in the text, can be read back.
. tests/cmd/lib
"$py" - "$t" <<'PY' || exit 1
import sys
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

rng = np.random.default_rng(3)


def product(name, a, b, constant, op="MatMul", **attrs):
    out = [*a[:-1], b[-1]] if op == "MatMul" else None
    inputs = [h.make_tensor_value_info("a", T.FLOAT, a)]
    w = [nh.from_array(rng.standard_normal(b).astype(np.float32), "b")] if constant else []
    if not constant:
        inputs.append(h.make_tensor_value_info("b", T.FLOAT, b))
    graph = h.make_graph([h.make_node(op, ["a", "b"], ["y"], **attrs)], "product", inputs,
                         [h.make_tensor_value_info("y", T.FLOAT, out)], w)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{sys.argv[1]}/{name}.onnx")


product("rows", [261, 300], [300, 70], True)
product("shared", ["n", 331, 64], [64, 150], True)  # threads share blocks of rows, not columns
product("batch", [2, 90, 420], [420, 40], True)
product("inputs", [70, 300], [300, 230], False)   # the second one is copied into panels
product("batches", [2, 33, 100], [2, 100, 70], False)
product("transposed", [50, 100], [90, 100], False, "Gemm", transB=1)
product("both", [100, 30], [90, 100], False, "Gemm", transA=1, transB=1)
product("symbol", ["m", 130], [130, 70], True)
product("stream", ["m", 600], [600, 1900], True)  # weights beyond the second cache
product("symbols", ["m", "k"], ["k", "n"], False)
# a matrix with itself turned around: the panels' own columns are one block, and neighbours of the sum's axis
graph = h.make_graph([h.make_node("Transpose", ["a"], ["t"], perm=[2, 3, 1, 0]),
                      h.make_node("Transpose", ["t"], ["u"], perm=[0, 1, 3, 2]), h.make_node("MatMul", ["t", "u"], ["y"])],
                     "gram", [h.make_tensor_value_info("a", T.FLOAT, [3, 16, 5, 4])],
                     [h.make_tensor_value_info("y", T.FLOAT, [5, 4, 16, 16])])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/gram.onnx")
hidden = 70                                     # of a recurrent layer: its steps multiply few rows again and again
weights = {k: (rng.standard_normal(d) / 8).astype(np.float32) for k, d in
           {"w": (1, hidden, 9), "r": (1, hidden, hidden), "b": (1, 2 * hidden)}.items()}
graph = h.make_graph([h.make_node("RNN", ["x", "w", "r", "b"], ["y"], hidden_size=hidden)], "recurrent",
                     [h.make_tensor_value_info("x", T.FLOAT, [4, "n", 9])],
                     [h.make_tensor_value_info("y", T.FLOAT, [4, 1, "n", hidden])],
                     [nh.from_array(v, k) for k, v in weights.items()])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/recurrent.onnx")
for n in (1, 2, 3, 4, 5, 6, 7, 9):
    x = rng.standard_normal((4, n, 9)).astype(np.float32)
    state, y = np.zeros((n, hidden)), []
    for step in x:
        state = np.tanh(step @ weights["w"][0].T + state @ weights["r"][0].T + weights["b"].reshape(2, hidden).sum(0))
        y.append(state)
    np.savez(f"{sys.argv[1]}/recurrent{n}.npz", x=x, y=np.array(y, np.float32)[:, None])
w = nh.to_array(onnx.load(sys.argv[1] + "/symbol.onnx").graph.initializer[0])
for m in (1, 2, 3, 5, 6, 7, 13):
    a = rng.standard_normal((m, 130)).astype(np.float32)
    np.savez(f"{sys.argv[1]}/rows{m}.npz", a=a, y=a @ w)
w = nh.to_array(onnx.load(sys.argv[1] + "/stream.onnx").graph.initializer[0])
for m in (1, 4, 8, 14, 15, 29):
    a = rng.standard_normal((m, 600)).astype(np.float32)
    np.savez(f"{sys.argv[1]}/stream{m}.npz", a=a, y=(a.astype(np.float64) @ w).astype(np.float32))
# pictures of any size, their rows joined to fill tiles, to and from memory with a border around them
v, w = (rng.standard_normal(d).astype(np.float32) for d in ((6, 5, 1, 1), (7, 6, 3, 3)))
graph = h.make_graph([h.make_node("Conv", ["x", "v"], ["p"]), h.make_node("Conv", ["p", "w"], ["y"], pads=[1, 1, 1, 1])],
                     "pictures", [h.make_tensor_value_info("x", T.FLOAT, ["n", 5, "h", "w"])],
                     [h.make_tensor_value_info("y", T.FLOAT, ["n", 7, "h", "w"])],
                     [nh.from_array(v, "v"), nh.from_array(w, "w")])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/pictures.onnx")
for i, (n, H, W) in enumerate(((2, 3, 5), (1, 1, 40), (3, 7, 3), (5, 4, 1), (1, 9, 14), (7, 1, 1), (2, 1, 9), (1, 3, 4))):
    x = rng.standard_normal((n, 5, H, W)).astype(np.float32)
    p = np.pad(np.einsum("nchw,kc->nkhw", x, v[:, :, 0, 0]), ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = sum(np.einsum("nchw,kc->nkhw", p[:, :, r:r + H, s:s + W], w[:, :, r, s]) for r in range(3) for s in range(3))
    np.savez(f"{sys.argv[1]}/pictures{i}.npz", x=x, y=y)
PY
for target in native x86-64-v3 c; do
	for i in 0 1 2 3 4 5 6 7; do
		"$tcc" verify "$t/pictures.onnx" --target $target --data "$t/pictures$i.npz" --rtol 1e-4 --atol 1e-4 ||
			fail "pictures $i differ on $target"
	done
done
for m in rows shared batch inputs batches transposed both gram symbol symbols; do
	for target in native x86-64-v3; do
		options="--rtol 1e-4 --atol 1e-4 --target $target"
		case $m in
		symbol) options="$options --dim m=1..900" ;;
		shared) options="$options --dim n=1..3 --shape a=2x331x64" ;;
		symbols) options="$options --dim m=1..900 --dim k=1..900 --dim n=1..900" ;;
		esac
		"$tcc" verify "$t/$m.onnx" $options || fail "$m differs on $target"
	done
done
for m in 1 2 3 5 6 7 13; do                    # fewer rows than the largest tile has
	"$tcc" verify "$t/symbol.onnx" --dim m=1..900 --data "$t/rows$m.npz" --rtol 1e-4 --atol 1e-4 || fail "$m rows differ"
done
for target in native x86-64-v3; do             # one tile takes few rows in one pass over the weights
	"$tcc" compile "$t/stream.onnx" --target $target --emit ir --stage loop -o "$t/stream.ir" || fail "no dump"
	grep -q 'tile=\[1[0-4],' "$t/stream.ir" || fail "$target: rows are few"
	for m in 1 4 8 14 15 29; do
		"$tcc" verify "$t/stream.ir" --data "$t/stream$m.npz" --rtol 1e-4 --atol 1e-4 || fail "$m rows differ on $target"
	done
done
for target in native x86-64-v3; do
	"$tcc" compile "$t/recurrent.onnx" --target $target --emit ir --stage loop -o "$t/r.ir" || fail "no dump"
	for n in 1 2 3 4 5 6 7 9; do
		"$tcc" verify "$t/r.ir" --data "$t/recurrent$n.npz" --rtol 1e-4 --atol 1e-5 || fail "$n rows recur otherwise on $target"
	done
done
"$tcc" verify "$t/symbols.onnx" --shape a=61x50 --shape b=50x133 --rtol 1e-4 --atol 1e-4 || fail "symbols differ"
"$tcc" compile "$t/rows.onnx" --target x86-64-v3 --emit ir --stage loop -o "$t/rows.ir" || fail "no dump"
[ "$(grep -o 'prefetch %b[0-9]*' "$t/rows.ir" | sort -u | wc -l)" = 3 ] || fail "columns, rows or places of the result are not fetched ahead"
"$tcc" bench "$t/rows.ir" --iters 1 >"$t/run.log" 2>&1 || fail "the dump does not run: $(cat "$t/run.log")"
for m in inputs transposed; do
	"$tcc" opt "$t/$m.onnx" --target x86-64-v3 --stop-after layout -o "$t/$m.ir" || fail "no dump"
	grep -q 'tensor .*block = ' "$t/$m.ir" || fail "$m: nothing is packed"
	"$tcc" verify "$t/$m.ir" --rtol 1e-4 --atol 1e-4 || fail "$m.ir differs"
done
sed 's/block = [0-9]*/block = 0/' "$t/inputs.ir" >"$t/bad.ir"
"$tcc" opt "$t/bad.ir" --passes=schedule -o "$t/x.ir" 2>"$t/err" && fail "blocks of no elements are accepted"
grep -q 'stored in blocks, of 1 to 4096' "$t/err" || fail "$(cat "$t/err")"
