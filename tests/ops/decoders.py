"""Attention of decoders, in windows, and of packed operands, with results from the definitions in numpy.
usage: decoders.py TYPE OUT"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops2"))
from single import cases_in, report, rng, scalar  # noqa: E402

kind = sys.argv[1]
t, g, ok = cases_in(kind)
i32 = np.int32


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x, n):
    """[batch, sequence, n * size] to [batch, n, sequence, size]"""
    return x.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)


def attend(q, k, v, bias=0., scale=None):
    """Heads of each; [batch, sequence, n * size]."""
    s = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -.5) + bias
    y = (softmax(s) @ v).transpose(0, 2, 1, 3)
    return y.reshape(*y.shape[:2], -1)


def packed_operands():
    B, S, L, N, H = 2, 3, 5, 2, 4
    D = N * H
    for name, bias in (("", None), ("_bias", g(3 * D))):
        c = np.split(bias, 3) if bias is not None else [0, 0, 0]
        qkv = g(B, S, N, 3, H)
        q, k, v = [heads(qkv[:, :, :, i].reshape(B, S, D) + c[i], N) for i in range(3)]
        ok("qkv" + name, "MultiHeadAttention", [qkv, None, None, bias], [attend(q, k, v), k, v], num_heads=N)
        x, kv = g(B, S, D), g(B, L, N, 2, H)
        q, k, v = [heads(a + u, N) for a, u in zip([x, kv[:, :, :, 0].reshape(B, L, D), kv[:, :, :, 1].reshape(B, L, D)], c)]
        ok("kv" + name, "MultiHeadAttention", [x, kv, None, bias], [attend(q, k, v)], num_heads=N)
        lens = np.array([3, 5], i32)
        more = np.concatenate([lens, [0, 3, 6], [0, 3, 8]]).astype(i32)
        hide = np.where(np.arange(L) < lens[:, None], 0., -10000.)[:, None, None]
        ok("kv_lengths" + name, "MultiHeadAttention", [x, kv, None, bias, more], [attend(q, k, v, hide)], num_heads=N)


def self_attention():
    """The cache's keys lie in blocks of 16 bytes."""
    N, H, T, D = 2, 16, 7, 12
    x = 16 // np.dtype(t).itemsize

    def blocked(k):
        return k.reshape(*k.shape[:3], H // x, x).transpose(0, 1, 3, 2, 4).reshape(k.shape)
    for name, beams, P in (("", 1, 3), ("_first", 1, 0), ("_last", 1, T - 1), ("_beams", 2, 4)):
        B = 2 * beams
        r, w, b = g(B, 1, D), g(D, 3 * N * H), g(3 * N * H)
        k, v = g(B, N, T, H), g(B, N, T, H)
        q1, k1, v1 = [heads(a, N) for a in np.split(r @ w + b, 3, -1)]
        k2, v2 = k.copy(), v.copy()
        k2[:, :, P], v2[:, :, P] = k1[:, :, 0], v1[:, :, 0]
        sees_k, sees_v, tail = k2[:, :, :P + 1].copy(), v2[:, :, :P + 1].copy(), []
        if beams > 1:
            origin = rng.randint(0, beams, (2, beams, T)).astype(i32)
            for i in range(B):
                for s in range(P):
                    row = i // beams * beams + origin[i // beams, i % beams, s]
                    sees_k[i, :, s], sees_v[i, :, s] = k[row, :, s], v[row, :, s]
            tail = [scalar(beams, i32), origin]
        mask = (rng.rand(B, P + 1) > .3).astype(i32)
        mask[:, P] = 1
        scores = g(1, N, 1, P + 1)
        y = attend(q1, sees_k, sees_v, scores + np.where(mask, 0., -10000.)[:, None, None], .3)
        ok("self" + name, "DecoderMaskedSelfAttention",
           [r, w, b, mask, np.stack([blocked(k), v]), scores, scalar(P, i32)] + tail, [y, np.stack([blocked(k2), v2])],
           num_heads=N, past_present_share_buffer=1, scale=.3)


def decoder():
    B, S, L, C, N, H = 2, 3, 4, 5, 2, 4
    D = N * H

    def flag(v):
        return np.array([v])
    x, key, wq, wkv, b = g(S, B, D), g(L, B, D), g(D, D), g(D, 2 * D), g(3 * D)
    cache = [g(B, N, C, H), g(B, N, C, H)]
    q = heads((x @ wq).transpose(1, 0, 2) + b[:D], N)
    for cross in (False, True):
        for past in (False, True):
            for const in ("", "ijkl"):
                kv = ((key if cross else x) @ wkv).transpose(1, 0, 2) + b[D:]
                k, v = heads(kv[..., :D], N), heads(kv[..., D:], N)
                if past:
                    k, v = cache if cross else [np.concatenate([c, n], 2) for c, n in zip(cache, (k, v))]
                pad = rng.rand(B, k.shape[2]) > .7
                pad[:, 0] = False
                y = attend(q, k, v, np.where(pad, -10000., 0.)[:, None, None])
                ok(f"decoder_{int(cross)}{int(past)}{len(const)}", "DecoderAttention",
                   [x, key, wq, wkv, b, pad, *cache, flag(cross), flag(past), flag(True), flag(True)],
                   [y.transpose(1, 0, 2), k, v], inits=const, num_heads=N)
    k, v = [heads(a, N) for a in np.split((x @ wkv).transpose(1, 0, 2) + b[D:], 2, -1)]
    ok("decoder_plain", "DecoderAttention", [x, key, wq, wkv, b, None, None, None] + [flag(False)] * 4,
       [attend(q, k, v).transpose(1, 0, 2)], inits="ijkl", num_heads=N)


def longformer():
    B, S, N, H, W = 2, 8, 2, 4, 2
    D = N * H
    x, w, b, gw, gb = g(B, S, D), g(D, 3 * D), g(3 * D), g(D, 3 * D), g(3 * D)
    mask = np.zeros((B, S))
    mask[0, 6:] = -10000
    for name, at in (("none", []), ("first", [(0, 0), (1, 0)]), ("some", [(0, 0), (0, 3), (1, 5)])):
        flags = np.zeros((B, S), i32)
        for p in at:
            flags[p] = 1
        q, k, v = [heads(a, N) for a in np.split(x @ w + b, 3, -1)]
        gap = abs(np.arange(S)[:, None] - np.arange(S)) <= W
        bias = np.where(gap[None] | (flags[:, None] > 0), mask[:, None], -np.inf)[:, None]
        local = attend(q, k, v, bias)
        q, k, v = [heads(a, N) for a in np.split(x @ gw + gb, 3, -1)]
        y = np.where(flags[..., None], attend(q, k, v, mask[:, None, None]), local)
        ok("longformer_" + name, "LongformerAttention", [x, w, b, mask, gw, gb, flags], [y], num_heads=N, window=W)


packed_operands()
self_attention()
decoder()
longformer()
report()
