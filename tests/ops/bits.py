"""Products with weights of few bits, and operators on bytes in cublasLt's orders, with results from the
definitions in numpy. usage: bits.py TYPE OUT"""
import os
import sys
from math import erf

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops2"))
from single import cases_in, expect, f, i8, MS, report, rng, scalar, T, u8  # noqa: E402

kind = sys.argv[1]
t, g, ok = cases_in(kind)
i32 = np.int32


def nbits():
    K, block = 48, 32

    def weights(N):
        """4 bits in blocks: as stored, and as numbers."""
        blocks = (K + block - 1) // block
        q, s, b = u8(N, blocks, block // 2), abs(g(N * blocks)) * .05, g(N)
        s = s.astype(t).astype(np.float64)
        v = np.stack([q & 15, q >> 4], -1).reshape(N, blocks, block).astype(np.float64) - 8
        w = (v * s.reshape(N, blocks, 1)).reshape(N, -1)[:, :K]
        return [q, s, b], lambda x: x @ w.T + b
    x, skip, scale = g(2, 3, K), g(2, 3, K), g(K)

    def norm(x, eps):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * scale
    one, up = weights(6), weights(6)
    kw = dict(K=K, block_size=block)
    for name, x0, args in (("", x, [x, None, None]), ("_norm", norm(x, 1e-5), [x, None, scale]),
                           ("_skip", norm(x + skip, 1e-5), [x, skip, scale])):
        v = one[1](x0)
        y = v / (1 + np.exp(-v)) * up[1](x0)
        ok("mlp" + name, "MatMulNBitsMlp", args + one[0] + up[0], [y, x + skip if name == "_skip" else None], N=6,
           activation="silu", inits="defghi", **kw)
    parts = [weights(n) for n in (8, 4, 4)]
    lists = sum((p[0] for p in parts), [])
    for name, x0, s in (("", x, None), ("_skip", x + skip, skip)):
        n = norm(x0, 1e-3)
        ok("qkv" + name, "MatMulNBitsQkv", [x, s, scale] + lists, [p[1](n) for p in parts] + [x0 if name else None], Nq=8, Nkv=4,
           epsilon=1e-3, **kw)


def small_floats():
    N, K = 5, 36
    table = np.array([0, .5, 1, 1.5, 2, 3, 4, 6])
    table = np.append(table, -table)
    x, b = g(2, 3, K), g(N)
    w = u8(N, K // 2)
    for block in (16, 12):
        s = abs(f(N, (K + block - 1) // block)).astype(ml_dtypes.float8_e4m3fn)
        v = table[np.stack([w & 15, w >> 4], -1).reshape(N, K)] * .25 * s.astype(np.float64).repeat(block, 1)[:, :K]
        v = v.astype(np.float32).astype(t).astype(np.float64)
        ok(f"fp4_{block}", "MatMulBlockQuantizedFp4Weight", [x, w, s.view(np.uint8), scalar(.25)], [x @ v.T], block_size=block)
        ok(f"fp4_bias_{block}", "MatMulBlockQuantizedFp4Weight", [x, w, s.view(np.uint8), scalar(.25), scalar(1), b], [x @ v.T + b],
           block_size=block, inits="bcdf")
    w = f(N, K).astype(ml_dtypes.float8_e4m3fn)
    s = abs(f(N, 3))
    v = w.astype(np.float64) * s.repeat(16, 1)[:, :K]
    ok("fp8", "MatMulBlockQuantizedFp8Weight", [x, w, s], [x @ v.T], block_size=16)
    r = ((x / .01).astype(np.float32).clip(-448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(.01))
    ok("fp8_both", "MatMulBlockQuantizedFp8Weight", [x, w, s, scalar(.01), b], [r.astype(np.float64) @ v.T + b], block_size=16,
       inits="bcde")


def quantized(x, scale):
    return np.rint(np.float32(x) / np.float32(scale)).clip(-128, 127).astype(np.int8)


def in_order(x, order):
    """A matrix's memory in an order, in its shape."""
    r, c = x.shape[-2:]
    if order == 0:
        return x.swapaxes(-1, -2).reshape(x.shape)
    if order == 2:
        return x.reshape(*x.shape[:-1], c // 32, 32).swapaxes(-2, -3).reshape(x.shape)
    return x


def ordered():
    x, s = g(2, 6, 64), scalar(.02)
    for a in range(3):
        for b in range(3):
            q = quantized(x, s)
            ok(f"quantize_{a}{b}", "QuantizeWithOrder", [in_order(x, a), s], [in_order(q, b)], order_input=a, order_output=b)
            v = q.astype(np.float32) * s
            to = T.FLOAT if kind == "f32" else T.FLOAT16
            ok(f"dequantize_{a}{b}", "DequantizeWithOrder", [in_order(q, a), s], [in_order(v.astype(t), b)], order_input=a,
               order_output=b, to=to)
    q, sy = i8(2, 6, 64), scalar(.03)
    v = q * np.float64(s)
    ok("ordered_gelu", "QOrderedGelu", [q, s, sy], [quantized(v * .5 * (1 + np.vectorize(erf)(v / np.sqrt(2))), sy)], order_X=1, order_Y=1)
    gamma, beta = g(64), g(64)
    n = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5) * gamma
    for order in range(3):
        ok(f"ordered_norm_{order}", "QOrderedLayerNormalization", [in_order(q, order), s, gamma, beta, sy],
           [in_order(quantized(n + beta, sy), order)], order_X=order, order_Y=order)
    ok("ordered_norm_plain", "QOrderedLayerNormalization", [q, s, gamma, None, sy], [quantized(n, sy)])


def ordered_products():
    x, w, c, bias = i8(2, 6, 16), i8(16, 8), i8(2, 6, 8), f(8)
    sx, sy, sc, orders = scalar(.02), scalar(.1), scalar(.05), dict(order_A=1, order_B=0, order_Y=1)
    for name, sw in (("", scalar(.01)), ("_columns", abs(f(8)) * .01)):
        y = x.astype(np.int64) @ w.astype(np.int64) * (sx * sw).astype(np.float32)
        expect("ordered_matmul" + name, "QOrderedMatMul", [x, sx, in_order(w, 0), sw, sy], [quantized(y, sy)], MS, **orders)
        expect("ordered_matmul_more" + name, "QOrderedMatMul", [x, sx, in_order(w, 0), sw, sy, bias, c, sc],
               [quantized(y + bias + c * sc, sy)], MS, inits="cdf", **orders)
    B, S, N, H = 2, 6, 2, 4
    ws, bs = [i8(16, N * H) for _ in "qkv"], [f(N * H) for _ in "qkv"]
    sw, sg = [scalar(.01), abs(f(N * H)) * .01, scalar(.02)], [scalar(v) for v in (.04, .03, .05)]

    def whole(x, scale):
        return quantized(x, scale) * np.float32(scale)
    lens = np.array([4, 6], i32)
    for name, ss, sp, mask, causal in (("", None, None, None, 0), ("_rounded", scalar(.05), scalar(1 / 127), None, 0),
                                       ("_mask", scalar(.05), scalar(1 / 127), lens, 0), ("_causal", None, None, None, 1)):
        p = [whole(x.astype(np.int64) @ w.astype(np.int64) * (sx * s).astype(np.float32) + b, u)
             .reshape(B, S, N, H).transpose(0, 2, 1, 3) for w, s, b, u in zip(ws, sw, bs, sg)]
        a = p[0] @ p[1].swapaxes(-1, -2)
        a = (whole(a, ss) if ss is not None else a) / np.float32(np.sqrt(H))
        if mask is not None:
            a = a + np.where(np.arange(S) < lens[:, None], 0, -10000)[:, None, None]
        if causal:
            a = np.where(np.tri(S) > 0, a, -np.inf)
        a = np.exp(a - a.max(-1, keepdims=True))
        a = (a / a.sum(-1, keepdims=True)).astype(np.float32)
        a = whole(a, sp) if sp is not None else a
        y = quantized((a @ p[2]).transpose(0, 2, 1, 3).reshape(B, S, N * H), sy)
        expect("ordered_attention" + name, "QOrderedAttention",
               [x, sx, *sg, *[in_order(w, 0) for w in ws], *sw, *bs, ss, sp, sy, mask], [y], MS, num_heads=N, order_input=1,
               order_weight=0, order_output=1, unidirectional=causal)


nbits()
small_floats()
if kind != "bf16":
    ordered()
if kind == "f32":
    ordered_products()
report()
