"""Old forms of operators as test directories: OUT/<Op>_<opset>[_k]/{model.onnx,test_data_set_0}.

Right values come from onnxruntime where it still runs the form, else from numpy, by the text of
that version."""
import os
import sys
import numpy as np
import onnx
from onnx import helper, numpy_helper, TensorProto

OUT = sys.argv[1]
rng = np.random.default_rng(7)
seen = {}


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def i64(*v):
    return np.array(v, np.int64)


def oracle(model, feeds):
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.log_severity_level = 4
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), o).run(None, feeds)


def case(op, opset, inputs, want=None, const=(), nout=1, domain='', **attrs):
    """inputs: arrays, None for one left out; const: positions that are initializers."""
    k = seen[op, opset] = seen.get((op, opset), 0) + 1
    name = f'{op}_{opset}' + (f'_{k}' if k > 1 else '')
    names = ['' if a is None else f'x{i}' for i, a in enumerate(inputs)]
    outs = [f'y{i}' for i in range(nout)]
    node = helper.make_node(op, names, outs, domain=domain, **attrs)
    vi = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
          for i, (n, a) in enumerate(zip(names, inputs)) if n and i not in const]
    init = [numpy_helper.from_array(inputs[i], names[i]) for i in const]

    def build(types):
        g = helper.make_graph([node], name, vi, types, init)
        sets = [helper.make_opsetid('', opset if not domain else 17)]
        if domain:
            sets.append(helper.make_opsetid(domain, opset))
        return helper.make_model(g, opset_imports=sets, ir_version=8 if opset > 3 else 3)

    feeds = {n: a for i, (n, a) in enumerate(zip(names, inputs)) if n and i not in const}
    if want is None:
        want = oracle(build([onnx.ValueInfoProto(name=n) for n in outs]), feeds)
    want = [np.asarray(w) for w in (want if isinstance(want, list) else [want])]
    model = build([helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(w.dtype), w.shape)
                   for n, w in zip(outs, want)])
    d = f'{OUT}/{name}/test_data_set_0'
    os.makedirs(d, exist_ok=True)
    open(f'{OUT}/{name}/model.onnx', 'wb').write(model.SerializeToString())
    for j, (n, a) in enumerate(feeds.items()):
        open(f'{d}/input_{j}.pb', 'wb').write(numpy_helper.from_array(a, n).SerializeToString())
    for j, (n, a) in enumerate(zip(outs, want)):
        open(f'{d}/output_{j}.pb', 'wb').write(numpy_helper.from_array(a, n).SerializeToString())


x = f(2, 3, 4, 5)

# 1: in-place hints
case('Relu', 1, [x], np.maximum(x, 0), consumed_inputs=[0])
case('Exp', 1, [x], np.exp(x), consumed_inputs=[0])
case('Sum', 1, [x, x], x + x, consumed_inputs=[0, 0])

# 1-6: broadcasting by an attribute
for op, fn in [('Add', np.add), ('Mul', np.multiply), ('Sub', np.subtract), ('Div', np.divide)]:
    b = np.abs(f(3, 4)) + 1
    case(op, 6, [x, b], fn(x, b[None, :, :, None]), broadcast=1, axis=1)
b = f(4, 5)
case('Add', 6, [x, b], x + b, broadcast=1)
case('Add', 6, [x, x], x + x)
b = f(3)
case('Pow', 6, [np.abs(x), b], np.abs(x) ** b[None, :, None, None], broadcast=1, axis=1)
case('Greater', 6, [x, b], x > b[None, :, None, None], broadcast=1, axis=-3)
p, q = x > 0, x[0, :, 0, 0] > 0
case('And', 1, [p, q], p & q[None, :, None, None], broadcast=1, axis=1)
case('Or', 6, [p, q], p | q[None, :, None, None], broadcast=1, axis=1)
case('Xor', 6, [p, q], p ^ q[None, :, None, None], broadcast=1, axis=1)
n, m = np.arange(6, dtype=np.int32).reshape(2, 3), np.array([1, 2, 3], np.int32)
case('Equal', 6, [n, m], n == m, broadcast=1)
case('Less', 6, [x, b], x < b[None, :, None, None], broadcast=1, axis=1)
case('PRelu', 6, [x, b], np.where(x < 0, x * b[None, :, None, None], x))

A, B, C = f(2, 3), f(3, 4), f(4)
case('Gemm', 6, [A, B, C], A @ B + C, broadcast=1)
case('Gemm', 7, [A, B, C])
case('Gemm', 9, [A, B, C], alpha=0.5, beta=2.0)

# attributes that became operands
case('Reshape', 1, [x], x.reshape(6, -1), shape=[6, -1])
case('Reshape', 1, [x], x.reshape(2, 3, 20), shape=[0, 0, -1], consumed_inputs=[0])
s = f(1, 3, 1, 2)
case('Squeeze', 11, [s], axes=[0, 2])
case('Squeeze', 11, [s], axes=[-2])
case('Squeeze', 11, [s])
case('Squeeze', 1, [s], s[0], axes=[0])
case('Unsqueeze', 1, [x], x[:, None], axes=[1])
case('Unsqueeze', 11, [x], axes=[0, -1])
for op in ['ReduceL1', 'ReduceL2', 'ReduceLogSum', 'ReduceLogSumExp', 'ReduceMax', 'ReduceMean',
           'ReduceMin', 'ReduceProd', 'ReduceSum', 'ReduceSumSquare']:
    a = np.abs(x) + 0.1
    last = 12 if op == 'ReduceSum' else 17
    case(op, 11, [a], axes=[1, 3])
    case(op, 11, [a])
    case(op, last if last == 12 else 13, [a], axes=[-1], keepdims=0)
case('ReduceMax', 17, [x], axes=[2])
case('ReduceMean', 17, [x], axes=[0], keepdims=0)
case('ReduceSum', 1, [x], x.sum((1, 2), keepdims=True), axes=[1, 2])
case('Split', 2, [x], [x[:, :, :1], x[:, :, 1:]], nout=2, axis=2, split=[1, 3])
case('Split', 11, [x], nout=2, axis=2)
case('Split', 11, [x], nout=2, axis=-1, split=[2, 3])
case('Split', 13, [x, i64(1, 2)], nout=2, axis=1, const=[1])
case('Split', 13, [x], nout=3, axis=1)
case('Slice', 1, [x], starts=[1, -3], ends=[3, 1000], axes=[1, 2])
case('Slice', 9, [x], starts=[0, 1], ends=[-1, 2])
case('Slice', 10, [x, i64(4), i64(0), i64(3), i64(-2)], const=[1, 2, 3, 4])
case('TopK', 1, [x], [np.sort(x, -1)[..., ::-1][..., :2], np.argsort(-x, -1, kind='stable')[..., :2]],
     nout=2, k=2)
case('TopK', 10, [x, i64(2)], nout=2, axis=1, const=[1])
case('Clip', 6, [x], min=-0.5, max=0.7)
case('Clip', 6, [x], max=0.1)
case('Clip', 1, [x], np.clip(x, -0.5, 0.5), min=-0.5, max=0.5, consumed_inputs=[0])
case('Clip', 11, [x, np.float32(-0.1).reshape(())], const=[1])
case('Pad', 1, [x], np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 3)], constant_values=1.5),
     paddings=[0, 0, 1, 0, 0, 0, 2, 3], value=1.5)
case('Pad', 2, [x], pads=[0, 0, 1, 0, 0, 0, 2, 3], value=1.5)
case('Pad', 2, [x], pads=[0, 0, 1, 0, 0, 0, 2, 3], mode='reflect')
case('Pad', 11, [x, i64(0, 0, 1, 0, 0, 0, 2, -3)], mode='edge', const=[1])
case('Dropout', 1, [x], x, ratio=0.3, is_test=1)
case('Dropout', 6, [x], x, ratio=0.3)
case('Dropout', 7, [x], ratio=0.3)
case('Dropout', 10, [x], [x, np.ones(x.shape, bool)], nout=2, ratio=0.3)
case('Tile', 1, [x, np.array(3, np.int64), np.array(1, np.int64)], np.tile(x, (1, 3, 1, 1)), const=[1, 2])
case('Tile', 6, [x, i64(1, 2, 1, 2)], const=[1])
case('Concat', 1, [x, x], np.concatenate([x, x], 1))
case('Cast', 1, [x], x.astype(np.int32), to='INT32')
case('Cast', 6, [x], to=TensorProto.DOUBLE)
case('DFT', 17, [f(1, 8, 1)], axis=1)

# rows from an axis on
for op in ['Softmax', 'LogSoftmax', 'Hardmax']:
    case(op, 1 if op != 'Hardmax' else 11, [x])
    case(op, 11, [x], axis=2)
    case(op, 11, [x], axis=0)
    case(op, 11, [x], axis=-1)
    case(op, 11, [f(3, 4)])

# normalisation
sc, bi, me, va = f(3), f(3), f(3), np.abs(f(3)) + 0.5
bn = lambda s, b, m, v, e=1e-5: ((x - m) / np.sqrt(v + e) * s + b).astype(np.float32)
c = lambda a: a[None, :, None, None]
case('BatchNormalization', 1, [x, sc, bi, me, va], bn(c(sc), c(bi), c(me), c(va)), is_test=1,
     consumed_inputs=[0, 0, 0, 1, 1])
case('BatchNormalization', 6, [x, sc, bi, me, va], bn(c(sc), c(bi), c(me), c(va), 1e-2), is_test=1,
     epsilon=1e-2)
case('BatchNormalization', 7, [x, sc, bi, me, va], momentum=0.8)
case('BatchNormalization', 9, [x, sc, bi, me, va])
e = [f(3, 4, 5), f(3, 4, 5), f(3, 4, 5), np.abs(f(3, 4, 5)) + 0.5]
case('BatchNormalization', 7, [x] + e, bn(*e), spatial=0)
y = f(2, 4, 3)
g = y.reshape(2, 2, 6)
z = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)).reshape(2, 2, 2, 3)
s2, b2 = f(2), f(2)
case('GroupNormalization', 18, [y, s2, b2],
     (z * s2[None, :, None, None] + b2[None, :, None, None]).reshape(2, 4, 3), num_groups=2)
case('Selu', 1, [x], np.where(x > 0, x, 1.6732 * (np.exp(x) - 1)).astype(np.float32) * np.float32(1.0507))
case('Selu', 6, [x])

# resizing
im = f(1, 2, 3, 4)
case('Upsample', 1, [im], im.repeat(2, 2).repeat(3, 3), height_scale=2.0, width_scale=3.0)
case('Upsample', 7, [im], scales=[1.0, 1.0, 2.0, 1.5])
case('Upsample', 7, [im], scales=[1.0, 1.0, 2.0, 3.0], mode='linear')
case('Upsample', 9, [im, np.array([1, 1, 2, 2], np.float32)], const=[1])
case('Resize', 10, [im, np.array([1, 1, 2, 0.75], np.float32)], const=[1])
case('Resize', 10, [im, np.array([1, 1, 2, 3], np.float32)], mode='linear', const=[1])
case('Resize', 11, [im, np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)], mode='linear',
     const=[1, 2])
case('Resize', 11, [im, np.zeros(0, np.float32), np.zeros(0, np.float32), i64(1, 2, 6, 8)],
     mode='nearest', const=[1, 2, 3])
case('Resize', 13, [im, None, None, i64(1, 2, 5, 3)], mode='cubic', const=[3])

# pooling
case('AveragePool', 7, [x], kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1)
case('MaxPool', 1, [x], kernel_shape=[2, 3], strides=[2, 1])
case('LpPool', 2, [x], kernel_shape=[2, 2], p=3)
case('GlobalLpPool', 1, [x], (np.abs(x) ** 3).sum((2, 3), keepdims=True) ** np.float32(1 / 3), p=3.0)
roi = np.array([[0, 0, 3, 2], [1, 0, 2, 3]], np.float32)
case('RoiAlign', 10, [f(1, 2, 6, 7), roi, i64(0, 0)], output_height=2, output_width=2, sampling_ratio=2)
case('RoiAlign', 16, [f(1, 2, 6, 7), roi, i64(0, 0)], output_height=2, output_width=2, sampling_ratio=2)
grid = (rng.random((1, 3, 3, 2)) * 2 - 1).astype(np.float32)
case('GridSample', 16, [f(1, 2, 4, 5), grid], mode='bilinear')
case('GridSample', 16, [f(1, 2, 4, 5), grid], mode='bicubic')

# recurrent
H, I = 3, 2
for op, gates in [('RNN', 1), ('GRU', 3), ('LSTM', 4)]:
    args = [f(5, 2, I), f(1, gates * H, I), f(1, gates * H, H), f(1, 2 * gates * H)]
    case(op, 7, args, nout=2, hidden_size=H)
args = [f(5, 2, I), f(2, 3 * H, I), f(2, 3 * H, H), f(2, 6 * H)]
case('GRU', 7, args, nout=2, hidden_size=H, direction='bidirectional', linear_before_reset=1)

# renamed, and words
idx = np.array([[1, 0, 2, 0, 1]], np.int64)
case('Scatter', 9, [f(3, 5), idx, f(1, 5)])
case('ArgMax', 11, [x], axis=2)
case('LabelEncoder', 1, [np.array(['b', 'zz', 'a'], object)], i64(1, -1, 0), domain='ai.onnx.ml',
     classes_strings=['a', 'b', 'c'], default_int64=-1)
case('LabelEncoder', 1, [i64(2, 9, 0)], np.array(['c', '?', 'a'], object), domain='ai.onnx.ml',
     classes_strings=['a', 'b', 'c'], default_string='?')

# 1: the first forms of what is applied element by element, with hints for memory
pos = np.abs(x) + np.float32(0.5)
for op, a, want, kw in [
        ('Abs', x, np.abs(x), {}), ('Ceil', x, np.ceil(x), {}), ('Floor', x, np.floor(x), {}), ('Log', pos, np.log(pos), {}),
        ('Neg', x, -x, {}), ('Reciprocal', pos, 1 / pos, {}), ('Sqrt', pos, np.sqrt(pos), {}), ('Tanh', x, np.tanh(x), {}),
        ('Sigmoid', x, 1 / (1 + np.exp(-x)), {}), ('LeakyRelu', x, np.where(x < 0, x * np.float32(0.2), x), {'alpha': 0.2}),
        ('Elu', x, np.where(x < 0, np.float32(2) * (np.exp(x) - 1), x), {'alpha': 2.0}),
        ('HardSigmoid', x, np.clip(x * np.float32(0.25) + np.float32(0.4), 0, 1), {'alpha': 0.25, 'beta': 0.4})]:
    case(op, 1, [a], want, consumed_inputs=[0], **kw)
    if op in ('Abs', 'Ceil', 'Elu', 'Floor', 'Log', 'HardSigmoid', 'Tanh'):
        case(op, 6, [a], want, **kw)
for op, fn in [('Max', np.maximum), ('Min', np.minimum), ('Mean', lambda a, b: (a + b) / 2)]:
    y = f(2, 3, 4, 5)
    case(op, 1, [x, y], fn(x, y), consumed_inputs=[0, 0])
    case(op, 6, [x, y], fn(x, y))
for op, fn in [('Add', np.add), ('Mul', np.multiply), ('Sub', np.subtract), ('Div', np.divide)]:
    b = np.abs(f(3, 4)) + 1
    case(op, 1, [x, b], fn(x, b[None, :, :, None]), broadcast=1, axis=1, consumed_inputs=[0, 0])
slope = f(3)
case('PRelu', 1, [x, slope], np.where(x < 0, x * slope[:, None, None], x), consumed_inputs=[0])
sc, bi = f(3), f(3)
mu, va = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
case('InstanceNormalization', 1, [x, sc, bi],
     (x - mu) / np.sqrt(va + np.float32(1e-5)) * sc[:, None, None] + bi[:, None, None], consumed_inputs=[0])
for op, fn in [('ReduceL1', lambda a, k: np.abs(a).sum(k)), ('ReduceL2', lambda a, k: np.sqrt((a * a).sum(k))),
               ('ReduceLogSum', lambda a, k: np.log(np.abs(a).sum(k))),
               ('ReduceLogSumExp', lambda a, k: np.log(np.exp(a).sum(k))), ('ReduceSumSquare', lambda a, k: (a * a).sum(k))]:
    a = np.abs(x) if op == 'ReduceLogSum' else x
    for v in (1, 11, 13):
        case(op, v, [a], fn(a, (1, 3)), axes=[1, -1] if v > 1 else [1, 3], keepdims=0)
a, b, c = f(4, 3), f(3, 5), f(5)
case('Gemm', 1, [a, b, c], a @ b * np.float32(0.5) + c, alpha=0.5, broadcast=1)
v = f(6, 2)
case('Split', 1, [v], [v[:2], v[2:]], nout=2, axis=0, split=[2, 4])
case('Split', 1, [v, np.array([1, 5], np.float32)], [v[:1], v[1:]], const=[1], nout=2, axis=0)
v = f(1, 8, 2, 3)
case('DepthToSpace', 1, [v], v.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6), blocksize=2)
v = f(2, 3, 4, 4)
w = np.stack([v[:, :, i:i + 3, j:j + 3] for i in range(2) for j in range(2)])
case('LpPool', 1, [v], (np.abs(w) ** 3).sum(0) ** np.float32(1 / 3), kernel_shape=[2, 2], p=3.0)
case('GlobalLpPool', 22, [v], np.sqrt((v * v).sum((2, 3), keepdims=True)))
rois = np.array([[0, 0, 0, 3, 3], [1, 1, 1, 3, 2]], np.float32)
case('MaxRoiPool', 1, [v, rois], pooled_shape=[2, 2])
want = np.stack([np.stack([np.stack([v[b, :, r0:r1, c0:c1].max((1, 2)) for c0, c1 in cols], -1) for r0, r1 in rws], -2)
                 for b, rws, cols in ((0, ((0, 2), (2, 4)), ((0, 2), (2, 4))), (1, ((1, 2), (2, 3)), ((1, 3), (2, 4))))])
case('MaxRoiPool', 22, [v, rois], want, pooled_shape=[2, 2])

# recurrent, with an attribute that said whether the sequence is wanted
for op, gates in [('RNN', 1), ('GRU', 3), ('LSTM', 4)]:
    for v in (1,) if op != 'GRU' else (1, 3):
        args = [f(5, 2, I), f(1, gates * H, I), f(1, gates * H, H), f(1, 2 * gates * H)]
        now = helper.make_model(helper.make_graph(
            [helper.make_node(op, list('xwrb'), ['y', 'h'], hidden_size=H)], 'now',
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in zip('xwrb', args)],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in 'yh']),
            opset_imports=[helper.make_opsetid('', 14)], ir_version=8)
        case(op, v, args, oracle(now, dict(zip('xwrb', args))), nout=2, hidden_size=H, output_sequence=1)

# draws: what can be said of them is their type, shape and range
for v in (1, 22):
    for op, args, kw in [('RandomNormal', [], {'shape': [2, 3], 'scale': 0.0, 'mean': 3.0}),
                         ('RandomNormalLike', [f(2, 3)], {'scale': 0.0, 'mean': 3.0}),
                         ('RandomUniform', [], {'shape': [2, 3], 'low': 3.0, 'high': 3.0}),
                         ('RandomUniformLike', [f(2, 3)], {'low': 3.0, 'high': 3.0})]:
        case(op, v, args, np.full((2, 3), 3, np.float32), **kw)
for v in (7, 22):
    case('Multinomial', v, [np.log(np.array([[1e-30, 1, 1e-30], [1, 1e-30, 1e-30]], np.float32))],
         np.array([[1, 1], [0, 0]], np.int32), sample_size=2)

# trees
tree = dict(nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], nodes_values=[0.5, 0.0, 0.0],
            nodes_modes=['BRANCH_LEQ', 'LEAF', 'LEAF'], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0])
rows = f(5, 3)
first = rows[:, 1] <= 0.5
for v in (1, 3, 5):
    case('TreeEnsembleRegressor', v, [rows], np.where(first, 1.5, -2).astype(np.float32)[:, None], domain='ai.onnx.ml', n_targets=1,
         target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.5, -2.0], **tree)
    case('TreeEnsembleClassifier', v, [rows], [np.where(first, 7, 9), np.where(first[:, None], [0.75, 0.25], [0.125, 0.875]).astype(np.float32)],
         domain='ai.onnx.ml', nout=2, classlabels_int64s=[7, 9], class_treeids=[0, 0, 0, 0], class_nodeids=[1, 1, 2, 2],
         class_ids=[0, 1, 0, 1], class_weights=[0.75, 0.25, 0.125, 0.875], **tree)
doubles = rows.astype(np.float64)
case('TreeEnsembleRegressor', 5, [doubles], np.where(doubles[:, 1] <= 0.5, 1.5, -2)[:, None].astype(np.float32), domain='ai.onnx.ml',
     n_targets=1, target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0],
     target_weights_as_tensor=numpy_helper.from_array(np.array([1.5, -2.0])), nodes_values_as_tensor=numpy_helper.from_array(np.array([0.5, 0, 0])),
     **{k: v for k, v in tree.items() if k != 'nodes_values'})
