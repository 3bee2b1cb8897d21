"""Gradients of small graphs in float64, with central differences of onnx's reference evaluator as values.
usage: gradient.py OUT"""
import math
import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

out = sys.argv[-1]
rng = np.random.RandomState(5)
STEP = 1e-5


def f(*s):
    return rng.randn(*s)


def ints(*v):
    return np.array(v, np.int64)


def typed(name, a):
    t = {"float64": "double", "int64": "int64", "float32": "float", "bool": "bool"}[a.dtype.name]
    return f"{t}[{','.join(map(str, a.shape))}] {name}" if a.ndim else f"{t} {name}"


def differences(run, feed, x):
    """The central differences of run(feed) for each element of feed[x]."""
    g = np.zeros(feed[x].shape)
    for at in np.ndindex(*g.shape):
        both = []
        for sign in (1, -1):
            a = feed[x].copy()
            a[at] += sign * STEP
            both.append(run({**feed, x: a}))
        g[at] = (both[0] - both[1]) / (2 * STEP)
    return g


def save(name, model, ins, outs):
    data = f"{out}/{name}/test_data_set_0"
    os.makedirs(data)
    onnx.save(model, f"{out}/{name}/model.onnx")
    for kind, values in (("input", ins), ("output", outs)):
        for i, v in enumerate(values):
            with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(v)).SerializeToString())


def case(name, body, xs, zs=None, opset=22, at=None, want=None):
    """body: lines that make y from xs and zs (name to array). at: other values of xs, where the gradient is taken.
    want: the gradients, where the reference evaluator is not exact enough to say."""
    zs = zs or {}
    every = {**xs, **zs}
    head = f'<ir_version: 10, opset_import: ["" : {opset}, "ai.onnx.preview.training" : 1]>\n'
    params = ", ".join(typed(n, a) for n, a in every.items())
    plain = parser.parse_model(f"{head}g ({params}) => (double[?] y) {{ {body} }}")
    del plain.graph.output[0].type.tensor_type.shape.dim[:]
    plain.graph.output[0].type.tensor_type.ClearField("shape")
    evaluator = ReferenceEvaluator(plain)

    def run(feed):
        return float(np.sum(evaluator.run(None, feed)[0]))
    here = {**every, **(at or {})}
    want = want or [differences(run, here, x) for x in xs]
    feeds = {**every, **{f"{n}_at": a for n, a in (at or {}).items()}}
    names = [n + "_at" if at and n in at else n for n in every]
    attrs = f'xs = [{", ".join(chr(34) + x + chr(34) for x in xs)}], y = "y"'
    if zs:
        attrs += f', zs = [{", ".join(chr(34) + z + chr(34) for z in zs)}]'
    params = ", ".join(typed(n, a) for n, a in feeds.items())
    results = ", ".join(typed("d" + x, a) for x, a in xs.items())
    grads = ", ".join("d" + x for x in xs)
    text = f"""g ({params}) => ({results}) {{ {body}
        {grads} = ai.onnx.preview.training.Gradient <{attrs}> ({", ".join(names)}) }}"""
    save(name, parser.parse_model(head + text), feeds.values(), want)


def elementwise():
    x = f(3, 4)
    bell = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    phi = np.vectorize(lambda v: .5 * (1 + math.erf(v / math.sqrt(2))))(x)
    case("erf", "y = Erf (x)", {"x": x}, want=[2 / np.sqrt(np.pi) * np.exp(-x * x)])
    case("gelu", "y = Gelu (x)", {"x": x}, want=[phi + x * bell])
    for op in "Exp Tanh Sigmoid Sin Cos Tan Atan Sinh Cosh Asinh Relu LeakyRelu Elu Selu Softplus Softsign Mish Neg Abs HardSigmoid \
HardSwish Celu ThresholdedRelu Sqrt Log Reciprocal Acosh Asin Acos Atanh Floor Round Sign".split():
        v = abs(x) + 1.1 if op in ("Sqrt", "Log", "Reciprocal", "Acosh") else np.tanh(x) * .9 if op in ("Asin", "Acos", "Atanh") else x
        case(op.lower(), f"y = {op} (x)", {"x": v})
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"):
        case(op.lower() + "_broadcast", f"y = {op} (a, b)", {"a": abs(f(2, 3, 4)) + .5, "b": abs(f(3, 1)) + .5})
    case("mod", "y = Mod <fmod = 1> (a, b)", {"a": f(5) * 3, "b": abs(f(5)) + 1})
    case("chain", "t = Mul(x, x) u = Exp(t) v = Add(u, x) w = Div(v, t) y = Mul(w, v)", {"x": abs(f(3)) + .5})
    case("clip", "y = Clip (x, lo, hi)", {"x": f(6)}, {"lo": np.array(-.5), "hi": np.array(.7)})
    case("where", "y = Where (c, a, b)", {"a": f(3, 4), "b": f(4)}, {"c": rng.rand(3, 4) > .5})
    case("unused", "y = Exp (a)", {"a": f(3), "b": f(2)})
    case("twice_read", "t = Transpose (x) u = MatMul (x, t) y = Mul (u, x)", {"x": f(3, 3)})
    case("elsewhere", "t = Mul (x, z) y = Mul (t, x)", {"x": f(3)}, {"z": f(3)}, at={"x": f(3)})


def moves():
    x = f(2, 3, 4)
    shape, k = "s = Constant <value_ints = [%s]> () ", "k = Constant <value_ints = [%s]> () "
    sq = "q = Mul (t, t) y = Mul (q, t)"
    for name, body in (("transpose", "t = Transpose <perm = [2, 0, 1]> (x) "), ("reshape", shape % "6, 4" + "t = Reshape (x, s) "),
                       ("reshape_split", shape % "4, 2, 3" + "t = Reshape (x, s) "), ("flatten", "t = Flatten (x) "),
                       ("slice", "b = Constant <value_ints = [3]> () e = Constant <value_ints = [-9]> () a = Constant <value_ints = [2]> ()"
                        " d = Constant <value_ints = [-2]> () t = Slice (x, b, e, a, d) "),
                       ("expand", shape % "5, 1, 3, 4" + "u = Unsqueeze (x, o) t = Expand (u, w) "), ("tile", k % "1, 2, 2" + "t = Tile (x, k) "),
                       ("pad_reflect", k % "0, 1, 2, 0, 1, 0" + 't = Pad <mode = "reflect"> (x, k) '),
                       ("pad", k % "0, 1, 2, 0, 1, 0" + "t = Pad (x, k) "), ("squeeze", "u = Unsqueeze (x, o) t = Squeeze (u, o) "),
                       ("cumsum", "a = Constant <value_int = 1> () t = CumSum (x, a) "),
                       ("split", "t, u = Split <axis = 2, num_outputs = 2> (x) "),
                       ("gather", k % "2, 0, 2, -1" + "t = Gather <axis = 1> (x, k) "),
                       ("topk", k % "2" + "t, i = TopK <axis = 2> (x, k) ")):
        if "o)" in body:
            body = "o = Constant <value_ints = [1]> () " + body
        body = body.replace("w)", "w)").replace("t = Expand (u, w)", "w = Constant <value_ints = [2, 5, 3, 4]> () t = Expand (u, w)")
        case(name, body + sq, {"x": x})
    case("concat", "t = Concat <axis = 1> (a, b, a) " + sq, {"a": f(2, 2), "b": f(2, 3)})
    case("gather_run", "t = Gather <axis = 0> (x, i) " + sq, {"x": f(4, 3)}, {"i": ints(3, 1, 3)})
    case("gather_nd", "t = GatherND (x, i) " + sq, {"x": f(4, 3)}, {"i": np.array([[3, 1], [0, 2], [3, 1]])})
    case("gather_elements", "t = GatherElements <axis = 1> (x, i) " + sq, {"x": f(2, 3)}, {"i": np.array([[0, 0], [2, 1]])})
    for r in ("none", "add"):
        case("scatter_" + r, f't = ScatterElements <axis = 0, reduction = "{r}"> (x, i, u) ' + sq, {"x": f(4), "u": f(2)},
             {"i": ints(3, 1)})
    case("depth_to_space", "t = DepthToSpace <blocksize = 2> (x) " + sq, {"x": f(1, 4, 2, 3)})
    case("resize", 'e = Constant <value_floats = [1.0, 1.0, 2.0, 1.5]> () t = Resize <mode = "linear"> (x, , e) ' + sq, {"x": f(1, 2, 2, 4)})


def products():
    case("matmul", "t = MatMul (a, b) y = Tanh (t)", {"a": f(3, 4), "b": f(4, 2)})
    case("matmul_batch", "t = MatMul (a, b) y = Tanh (t)", {"a": f(2, 3, 4), "b": f(4, 2)})
    case("matmul_vector", "t = MatMul (a, b) y = Tanh (t)", {"a": f(4), "b": f(2, 4, 3)})
    case("gemm", "t = Gemm <alpha = 0.5, beta = 2.0, transA = 1, transB = 1> (a, b, c) y = Tanh (t)",
         {"a": f(4, 3), "b": f(2, 4), "c": f(2)})
    case("einsum", 't = Einsum <equation = "bij,bkj->bik"> (a, b) y = Tanh (t)', {"a": f(2, 3, 4), "b": f(2, 2, 4)})
    for i, how in enumerate(("", "pads = [1, 1, 1, 1], strides = [2, 1]", "dilations = [2, 2], pads = [2, 1, 0, 2]",
                             "group = 2", "group = 4, strides = [2, 2]")):
        g = (1, 1, 1, 2, 4)[i]
        case(f"conv_{i}", f"t = Conv <{how}> (x, w, b) y = Tanh (t)" if how else "t = Conv (x, w, b) y = Tanh (t)",
             {"x": f(1, 4, 5, 4) * .3, "w": f(4, 4 // g, 2, 2) * .3, "b": f(4)})
    case("conv_transpose", "t = ConvTranspose <strides = [2], pads = [1, 0]> (x, w) y = Tanh (t)", {"x": f(1, 2, 4), "w": f(2, 3, 3)})


def reductions():
    x = f(2, 3, 4)
    for op in "Sum Mean Max Min Prod LogSumExp SumSquare L1 L2 LogSum".split():
        v = abs(x) + .1 if op == "LogSum" else x
        case("reduce_" + op.lower(), f"k = Constant <value_ints = [1]> () t = Reduce{op} (x, k) y = Mul (t, t)", {"x": v})
        case("reduce_all_" + op.lower(), f"t = Reduce{op} <keepdims = 0> (x) y = Mul (t, t)", {"x": v})
    case("softmax", "t = Softmax <axis = 1> (x) y = Mul (t, w)", {"x": x, "w": f(2, 3, 4)})
    case("log_softmax", "t = LogSoftmax (x) y = Mul (t, w)", {"x": x}, {"w": f(2, 3, 4)})
    case("layer_norm", "t = LayerNormalization (x, s, b) y = Mul (t, t)", {"x": x, "s": f(4), "b": f(4)})
    case("batch_norm", "t = BatchNormalization (x, s, b, m, v) y = Mul (t, t)", {"x": x, "s": f(3), "b": f(3)},
         {"m": f(3), "v": abs(f(3)) + 1})
    case("instance_norm", "t = InstanceNormalization (x, s, b) y = Mul (t, w)", {"x": x, "s": f(3), "b": f(3)}, {"w": f(2, 3, 4)})
    case("max_pool", "t = MaxPool <kernel_shape = [2, 2], strides = [1, 2], pads = [1, 0, 0, 1]> (x) y = Mul (t, t)", {"x": f(1, 2, 4, 5)})
    case("average_pool", "t = AveragePool <kernel_shape = [2, 3], pads = [0, 1, 1, 1]> (x) y = Mul (t, t)", {"x": f(1, 2, 4, 5)})
    case("global_pool", "t = GlobalAveragePool (x) y = Mul (t, t)", {"x": f(1, 2, 4, 5)})
    case("cross_entropy", "y = SoftmaxCrossEntropyLoss (x, l)", {"x": f(4, 3)}, {"l": ints(2, 0, 1, 1)})
    case("network", "h = MatMul (x, w) a = Relu (Add(h, b)) s = Softmax (MatMul (a, v)) d = Sub (s, z) y = Mul (d, d)"
         .replace("Relu (Add(h, b))", "Tanh (hb)").replace("a = ", "hb = Add (h, b) a = ").replace("Softmax (MatMul (a, v))", "Softmax (av)")
         .replace("s = ", "av = MatMul (a, v) s = "), {"w": f(3, 4), "b": f(4), "v": f(4, 2)}, {"x": f(5, 3), "z": f(5, 2)})


def conventions():
    """What the text of ir/ops/gradient.c says where there is no derivative."""
    head = '<ir_version: 10, opset_import: ["" : 22, "ai.onnx.preview.training" : 1]>\n'
    g = "dx = ai.onnx.preview.training.Gradient <xs = [\"x\"], y = \"y\"> (x)"
    for name, body, x, want in (("relu_tie", "y = Relu (x)", [0., 1, -1], [0, 1, 0]), ("abs_tie", "y = Abs (x)", [0., 2], [0, 1]),
                                ("max_tie", "y = ReduceMax (x)", [3., 1, 3], [.5, 0, .5]),
                                ("both_tie", "t = Neg (x) u = Neg (t) v = Mul (x, x) y = Max (u, v)", [1., 2], [1.5, 4])):
        model = parser.parse_model(f"{head}g (double[N] x) => (double[N] dx) {{ {body} {g} }}")
        save(name, model, [np.array(x)], [np.array(want, float)])
    model = parser.parse_model(head + """g (double[3] x) => (double[3] d2) { c = Mul (x, x) t = Mul (c, x)
        d = ai.onnx.preview.training.Gradient <xs = ["x"], y = "t"> (x)
        d2 = ai.onnx.preview.training.Gradient <xs = ["x"], y = "d"> (x) }""")
    x = f(3)
    save("second_order", model, [x], [6 * x])


for make in (elementwise, moves, products, reductions, conventions):
    make()
