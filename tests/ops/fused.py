"""What onnxruntime's optimizer fuses for other devices than CPUs, with results from the definitions in numpy
(and of onnxruntime's unfused operators). usage: fused.py TYPE OUT"""
import os
import sys
from math import erf

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops2"))
from single import F, MS, T, cases_in, expect, f, report, result, rng, scalar  # noqa: E402

kind = sys.argv[1]
t, g, ok = cases_in(kind)


def gelu(x):
    return x * .5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def fast_gelu(x):
    return .5 * x * (1 + np.tanh(x * (0.035677408136300125 * x * x + 0.7978845608028654)))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def first(x):
    return np.moveaxis(x, -1, 1)


def last(x):
    return np.moveaxis(x, 1, -1)


def convolutions():
    for name, x, w, kw in (
            ("2d", (2, 7, 6, 4), (6, 4, 3, 3), dict(pads=[1, 1, 1, 1], strides=[2, 1])),
            ("groups", (1, 5, 5, 4), (8, 1, 3, 3), dict(group=4, auto_pad="SAME_UPPER")),
            ("point", (2, 3, 3, 8), (5, 8, 1, 1), {}),
            ("1d", (2, 9, 3), (4, 3, 3), dict(dilations=[2])),
            ("3d", (1, 4, 4, 4, 2), (3, 2, 2, 2, 2), {})):
        x, w, b = g(*x), g(*w) * .3, g(w[0])
        w = w.astype(t).astype(np.float64)
        y = last(conv(first(x), w, b, **kw))
        ok("nhwc_conv_" + name, "NhwcConv", [x, last(w), b], [y], inits="bc" if name == "2d" else "", **kw)
        if kind == "f64":
            continue
        z = g(*y.shape)
        ok("nhwc_fused_" + name, "NhwcFusedConv", [x, w, b, z], [np.maximum(y + z, 0)], activation="Relu", **kw)
        ok("nhwc_leaky_" + name, "NhwcFusedConv", [x, w, b], [np.where(y < 0, y * .25, y)], activation="LeakyRelu",
           activation_params=[.25], **kw)
        ok("nhwc_plain_" + name, "NhwcFusedConv", [x, w], [y - b], **kw)


def conv(x, w, b, **kw):
    """onnxruntime's, in single precision."""
    return result("Conv", [a.astype(np.float32) for a in (x, w, b)], **kw)[0].astype(np.float64)


def products():
    x, w, b = g(2, 3, 4), g(4, 5), g(5)
    ok("gemm_fast_gelu", "GemmFastGelu", [x, w, b], [fast_gelu(x @ w + b)])
    ok("gemm_fast_gelu_plain", "GemmFastGelu", [x, w], [fast_gelu(x @ w)])
    a, c = g(3, 2, 4), g(3, 5, 4)
    y = .5 * (a @ c.transpose(0, 2, 1))
    for act, v, kw in (("Relu", np.maximum(y, 0), {}), ("Softmax", softmax(y, 1), dict(activation_axis=1)),
                       ("LeakyRelu", np.where(y < 0, .1 * y, y), dict(activation_alpha=.1)),
                       ("Selu", np.where(y < 0, 2 * .5 * (np.exp(y) - 1), 2 * y), dict(activation_alpha=.5, activation_gamma=2.)),
                       ("HardSigmoid", np.clip(.3 * y + .4, 0, 1), dict(activation_alpha=.3, activation_beta=.4))):
        ok("matmul_" + act.lower(), "FusedMatMulActivation", [a, c], [v], alpha=.5, transB=1, activation=act, **kw)


def sums():
    x, bias = g(2, 3, 4, 5), g(2, 1, 1, 5)
    ok("softmax_inner", "BiasSoftmax", [x, bias], [softmax(x + bias)], axis=3, is_inner_broadcast=1)
    ok("softmax_outer", "BiasSoftmax", [x, bias[0]], [softmax(x + bias[0])], axis=-1, is_inner_broadcast=0)
    wide = g(1, 1, 4, 5)
    ok("softmax_flat", "BiasSoftmax", [x, wide], [softmax((x + wide).reshape(6, 20)).reshape(x.shape)], axis=2, is_inner_broadcast=0)
    ok("softmax_default", "BiasSoftmax", [x, x], [softmax((x + x).reshape(2, 60)).reshape(x.shape)], is_inner_broadcast=1)
    x, b = g(2, 3, 8), g(8)
    s = x + b
    ok("split_gelu", "BiasSplitGelu", [x, b], [s[..., :4] * gelu(s[..., 4:])])
    for name, skip in (("all", g(2, 3, 2, 8)), ("one", g(2, 1, 1, 8)), ("rows", g(2, 8))):
        for act in (0, 1):
            x, bias, gamma, beta = g(2, 3, 2, 8), g(8) if act else None, g(8), g(8)
            s = x + (skip[:, None, None] if skip.ndim == 2 else skip) + (bias if act else 0)
            n = s.reshape(2, 6, 4, 2)
            n = ((n - n.mean((1, 3), keepdims=True)) / np.sqrt(n.var((1, 3), keepdims=True) + 1e-3)).reshape(s.shape)
            n = n * gamma + beta
            args = dict(activation=act, groups=4, epsilon=1e-3)
            ok(f"skip_group_{name}_{act}", "SkipGroupNorm", [x, gamma, beta, skip, bias], [silu(n) if act else n, s if act else None],
               **args)
            skip1 = skip if skip.ndim == 2 else first(skip)
            ok(f"skip_group_first_{name}_{act}", "SkipGroupNorm", [first(x), gamma, beta, skip1, bias],
               [first(silu(n) if act else n)], channels_last=0, **args)
    angles, q, qt, k, kt = f(2, 3, 8), g(2, 4, 3, 8), g(2, 4, 3, 8), g(2, 4, 3, 8), g(2, 4, 3, 8)
    s, c = [u(angles.astype(np.float64)).astype(t).astype(np.float64)[:, None] for u in (np.sin, np.cos)]
    ok("gemma_rotary", "GemmaRotaryEmbedding", [angles, q, qt, k, kt], [q * c + qt * s, k * c + kt * s])


def words(bits, rest):
    """A mask in words of 32 bits, the first element lowest."""
    bits = np.append(bits, np.full(-bits.size % 32, rest))
    return (bits.reshape(-1, 32).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1).astype(np.uint32)


def dropouts():
    x, b, r = g(3, 17), g(17), g(3, 17)
    ones, ratio, train = np.ones((3, 17), bool), scalar(.25), scalar(True, bool)
    ok("dropout_bias", "BiasDropout", [x, b, r], [x + b + r, ones])
    ok("dropout_bias_off", "BiasDropout", [x, x, None, ratio, scalar(False, bool)], [x + x, ones])
    ok("dropout_bias_bits", "BitmaskBiasDropout", [x, b, r, ratio], [x + b + r, words(ones, 1)])
    ok("dropout_bits", "BitmaskDropout", [x], [x, words(ones, 1)])
    ok("dropout_bits_zero", "BitmaskDropout", [x, scalar(0), train], [x, words(ones, 1)])
    # draws are numpy's, as those of Dropout in the standard's tests
    keep = np.random.RandomState(7).uniform(0, 1, x.shape) >= .25
    s = x + b
    ok("dropout_bias_trains", "BiasDropout", [x, b, r, ratio, train], [s * keep / .75 + r, keep], seed=7)
    ok("dropout_bits_trains", "BitmaskDropout", [x, ratio, train], [x * keep / .75, words(keep, 0)], seed=7)


def transforms():
    def parts(z):
        return np.stack([z.real, z.imag], -1)
    x = g(3, 4, 8)
    for n in (1, 2, 3):
        axes = tuple(range(3 - n, 3))
        z = np.fft.rfftn(x, axes=axes)
        ok(f"rfft_{n}", "Rfft", [x], [parts(z)], signal_ndim=n)
        ok(f"irfft_{n}", "Irfft", [parts(z)], [x], signal_ndim=n)
    a, b = g(3, 1, 4, 2), g(5, 1, 2)
    p, q = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    ok("complex_mul", "ComplexMul", [a, b], [parts(p * q)])
    ok("complex_mul_conj", "ComplexMulConj", [a, b], [parts(p * q.conj())])


def checks():
    x = g(3, 4)
    for name, bad in (("none", 1.), ("inf", -np.inf), ("nan", np.nan)):
        y = x.copy()
        y[1, 2] = bad
        ok("finite_" + name, "IsAllFinite", [x, y, x[0]], [np.array(np.isfinite(bad))])
        ok("finite_inf_" + name, "IsAllFinite", [y], [np.array(not np.isinf(bad))], isinf_only=1)
        ok("finite_nan_" + name, "IsAllFinite", [y, x], [np.array(not np.isnan(bad))], isnan_only=1)
    w, i = g(7, 3), rng.randint(0, 7, (2, 4))
    ok("embedding", "TorchEmbedding", [w, i], [w[i]])


def bytes_():
    for n in (np.int8, np.uint8):
        lo, hi = np.iinfo(n).min, np.iinfo(n).max + 1
        a, b = [rng.randint(lo, hi, s).astype(n) for s in ((3, 4), (2, 3, 1))]
        z = [scalar(v, n) for v in (3, 100)]
        i = [v.astype(np.int32) for v in (a, b, *z)]
        name = np.dtype(n).name
        ok("mul_integer_" + name, "MulInteger", [a, None, b], [i[0] * i[1]])
        ok("mul_integer_zero_" + name, "MulInteger", [a, z[0], b, z[1]], [(i[0] - i[2]) * (i[1] - i[3])])
        to = np.uint32 if n == np.uint8 else np.int32
        ok("sum_integer_" + name, "ReduceSumInteger", [b], [b.sum((0, 2), to, keepdims=True)], axes=[0, -1], keepdims=1)
        ok("sum_integer_flat_" + name, "ReduceSumInteger", [a], [a.sum(1, to)], axes=[1], keepdims=0)


def small():
    """Products of float8 in every mix of types."""
    e4, e5 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
    half, brain = np.float16, ml_dtypes.bfloat16
    number = {e4: T.FLOAT8E4M3FN, e5: T.FLOAT8E5M2, half: T.FLOAT16, brain: T.BFLOAT16, np.float32: F}
    one = np.ones(1, np.float32)
    for i, (ta, tb, to) in enumerate(((e4, e4, np.float32), (e5, e4, half), (e4, e5, brain), (half, half, half), (e4, e4, e4),
                                      (np.float32, np.float32, np.float32))):
        a, b, c = [(rng.randint(-4, 5, s) * .5).astype(u) for s, u in (((4, 6), ta), ((5, 6), tb), ((4, 5), half))]
        y = 2 * .5 * .25 * (a.astype(np.float64) @ b.astype(np.float64).T)
        args = dict(transB=1, alpha=2., dtype=number[to])
        s = [one * .5, one * .25]
        expect(f"gemm8_{i}", "GemmFloat8", [a, b, None, *s], [y.astype(np.float32).astype(to)], MS, **args)
        v = 2 * np.maximum(y + .5 * c.astype(np.float64), 0)
        expect(f"gemm8_bias_{i}", "GemmFloat8", [a, b, c, *s, one * 2], [v.astype(np.float32).astype(to)], MS, beta=.5,
               activation="RELU", **args)


convolutions()
products()
sums()
checks()
if kind != "bf16":
    transforms()
if kind == "f32":
    dropouts()
    bytes_()
    small()
report()
