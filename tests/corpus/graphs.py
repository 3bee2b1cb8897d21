"""Small graphs with what real models had trouble with, and onnxruntime's results.
usage: graphs.py OUT"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, parser

ort.set_default_logger_severity(4)
out = sys.argv[1]
rng = np.random.RandomState(1)


def f(*s):
    return rng.randn(*s).astype(np.float32)


def graph(name, text, *sets, opset=17):
    """A case of one model and several data sets, each a list of the inputs' arrays."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>\n'
    model = parser.parse_model(head + text)
    onnx.checker.check_model(model)
    session = ort.InferenceSession(model.SerializeToString())
    os.makedirs(f"{out}/{name}")
    onnx.save(model, f"{out}/{name}/model.onnx")
    for k, arrays in enumerate(sets):
        feed = dict(zip((i.name for i in session.get_inputs()), arrays))
        data = f"{out}/{name}/test_data_set_{k}"
        os.makedirs(data)
        for kind, values in (("input", feed.values()), ("output", session.run(None, feed))):
            for i, v in enumerate(values):
                with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                    file.write(numpy_helper.from_array(v).SerializeToString())


# A size that a branch decides is used before anything reads the branch's result itself.
graph("size_of_branch", """
g (bool c, int64[N] a, int64[M] b) => (float[K] y, int64[L] z) {
  s = If (c) <then_branch = t () => (int64[N] p) { p = Identity(a) },
              else_branch = e () => (int64[L] q2) { q = NonZero(b)
                                                   one = Constant<value = int64[1] {-1}>()
                                                   r = Reshape(q, one)
                                                   q2 = Identity(r) }>
  n = Shape(s)
  zero = ConstantOfShape<value = float[1] {0.5}>(n)
  y = Exp(zero)
  z = Identity(s)
}""",
      [np.array(True), np.arange(5), np.array([0, 1, 1])],
      [np.array(False), np.arange(5), np.array([0, 1, 1, 0, 7])])

# Kernels that would wait for each other: y shares x's and needs m; z may share m's only if x's is done.
graph("kernels_in_turn", """
g (float[N, M] a, float[N, M] b) => (float[N, K] y, float[N, L] z) {
  x = ReduceMax<axes = [1]>(a)
  m = ReduceMax<axes = [1]>(b)
  s = ReduceSum<keepdims = 0>(m)
  d = Sub(a, x)
  ds = Mul(d, s)
  e = Exp(ds)
  one = Constant<value = int64[1] {1}>()
  y = ReduceSum(e, one)
  f = Sub(b, m)
  h = Exp(f)
  hx = Mul(h, x)
  z = ReduceSum(hx, one)
}""", [f(4, 6), f(4, 6)], [f(70, 3), f(70, 3)])

# What a loop carries changes its size: what depends on that size alone stays in the loop.
graph("size_in_loop", """
g (int64 n, float[N] x) => (float[K] y, float s) {
  yes = Constant<value = bool {1}>()
  start = Constant<value = float {0.0}>()
  y, s = Loop (n, yes, x, start) <body = b (int64 i, bool c, float[P] p, float a) =>
      (bool c2, float[Q] q, float a2) {
    c2 = Identity(c)
    size = Shape(p)
    ones = ConstantOfShape<value = float[1] {1.0}>(size)
    sum = ReduceSum<keepdims = 0>(ones)
    a2 = Add(a, sum)
    one = Constant<value = float[1] {2.5}>()
    q = Concat<axis = 0>(p, one)
  }>
}""", [np.array(3), f(2)], [np.array(0), f(4)], [np.array(5), f(0)])

# Rounds that add a dimension each, as exporters write strided views; a scanned result besides.
graph("rounds_of_other_ranks", """
g (float[N, M] x) => (float[A, B] y, int64[C] z) {
  three = Constant<value = int64 {2}>()
  zero = Constant<value = int64 {0}>()
  strides = Constant<value = int64[2] {1, 2}>()
  n = Shape(x)
  back, z = Loop (three, , zero) <body = b (int64 i, bool c, int64 at) => (bool c2, int64 to, int64 j) {
    c2 = Identity(c)
    one = Constant<value = int64 {1}>()
    two = Constant<value = int64 {2}>()
    flat = Constant<value = int64[1] {-1}>()
    t = Sub(two, i)
    j = Sub(t, one)
    jj = Reshape(j, flat)
    size = Gather<axis = 0>(n, jj)
    end = Constant<value = int64[1] {2}>()
    after = Slice(n, jj, end)
    wide = Expand(at, after)
    step = Gather<axis = 0>(strides, j)
    none = Constant<value = int64 {0}>()
    count = Squeeze(size)
    r = Range(none, count, one)
    rs = Mul(r, step)
    first = Equal(i, none)
    shape = If (first) <then_branch = p () => (int64[S] s1) { s1 = Identity(size) },
                        else_branch = q () => (int64[T] s2) {
                          ones = Constant<value = int64[1] {1}>()
                          s2 = Concat<axis = 0>(size, ones) }>
    add = Reshape(rs, shape)
    to = Add(wide, add)
  }>
  flatten = Constant<value = int64[1] {-1}>()
  all = Reshape(x, flatten)
  y = Gather<axis = 0>(all, back)
}""", [f(2, 3)], [f(3, 5)])

# A residual whose sides are padded to lengths that floating point gives, so that no proof can tell whether
# they agree: proofs about what follows must not multiply.
SIDE = """
  s{i} = Shape({x})
  l{i} = Gather<axis = 0>(s{i}, at)
  f{i} = Cast<to = 1>(l{i})
  c{i} = Ceil(f{i})
  g{i} = Cast<to = 7>(c{i})
  e{i} = Sub(g{i}, l{i})
  h{i} = Add(e{i}, two)
  p{i} = Concat<axis = 0>(none, none, none, none, none, h{i})
  q{i} = Pad<mode = "reflect">({x}, p{i})
  w{i} = Conv<kernel_shape = [3]>(q{i}, k)"""


def residual(i):
    sides = SIDE.format(i=f"{i}a", x=f"x{i}") + SIDE.format(i=f"{i}b", x=f"x{i}")
    sides += SIDE.format(i=f"{i}c", x=f"w{i}b")
    return sides + f"\n  x{i + 1} = Add(w{i}a, w{i}c)"


graph("sides_of_residuals", "g (float[N, 1, L] x0) => (float[A, 1, B] x4) {"
      """
  at = Constant<value = int64[1] {2}>()
  none = Constant<value = int64[1] {0}>()
  two = Constant<value = int64[1] {2}>()
  k = Constant<value = float[1, 1, 3] {0.5, -1.0, 2.0}>()"""
      + "".join(residual(i) for i in range(4)) + "\n}",
      [f(1, 1, 40)], [f(2, 1, 57)])

# Much is done to each element of a convolution's tile: in C it is a loop, not written out for each.
graph("long_end_of_tile", """
g (float[N, 8, H, 12] x, float[24, 8, 3, 3] w) => (float[N, 24, A, B] y) {
  c = Conv(x, w)
  k = Constant<value = float {1.4142135}>()
  one = Constant<value = float {1.0}>()
  d = Div(c, k)
  e = Erf(d)
  p = Add(e, one)
  y = Mul(c, p)
}""", [f(1, 8, 9, 12), f(24, 8, 3, 3)], [f(2, 8, 5, 12), f(24, 8, 3, 3)])
