"""Sequences without padding, and biases by position, with results from the definitions in numpy.
usage: packed.py TYPE OUT"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops2"))
from single import cases_in, report  # noqa: E402

kind = sys.argv[1]
t, g, ok = cases_in(kind)
B, S, N, H = 3, 5, 2, 4
D = N * H
counts = np.array([2, 5, 1], np.int32)
real = np.concatenate([np.arange(n) + i * S for i, n in enumerate(counts)])
rest = np.setdiff1d(np.arange(B * S), real)
offsets = np.concatenate([real, rest]).reshape(B, S).astype(np.int32)
ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
i32 = np.int32


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x):
    """[tokens, heads * size] to [heads, tokens, size]"""
    return x.reshape(len(x), N, -1).transpose(1, 0, 2)


def attention(q, k, v, bias=None, scale=H ** -.5):
    """Of packed rows."""
    y = []
    for b in range(B):
        part = slice(ends[b], ends[b + 1])
        s = scale * heads(q[part]) @ heads(k[part]).transpose(0, 2, 1)
        if bias is not None:
            s = s + np.broadcast_to(bias, (B, N, S, S))[b, :, :counts[b], :counts[b]]
        y.append((softmax(s) @ heads(v[part])).transpose(1, 0, 2).reshape(counts[b], -1))
    return np.concatenate(y)


def padding():
    x = g(B, S, 6)
    ok("remove", "RemovePadding", [x, counts], [x.reshape(-1, 6)[real], offsets, ends, np.array([5], i32)])
    none = np.array([0, 0, 0], i32)
    all_ = np.arange(B * S, dtype=i32).reshape(B, S)
    ok("remove_all", "RemovePadding", [x, none], [x[0, :0], all_, np.zeros(4, i32), np.array([0], i32)])
    ok("remove_none", "RemovePadding", [x, none + S], [x.reshape(-1, 6), all_, np.arange(4, dtype=i32) * S, np.array([S], i32)])
    y = np.zeros((B * S, 6))
    y[real] = x.reshape(-1, 6)[real]
    ok("restore", "RestorePadding", [x.reshape(-1, 6)[real], offsets], [y.reshape(B, S, 6)])
    ok("restore_all", "RestorePadding", [x.reshape(-1, 6), all_], [x])


def attentions():
    x, n = g(len(real), 6), len(real)
    for name, sizes in (("", None), ("_sizes", [D, D, 6])):
        w, b = g(6, sum(sizes or 3 * [D])), g(sum(sizes or 3 * [D]))
        q, k, v = np.split(x @ w + b, np.cumsum(sizes or 3 * [D])[:2], 1)
        kw = dict(qkv_hidden_sizes=sizes) if sizes else {}
        ok("attention" + name, "PackedAttention", [x, w, b, offsets, ends], [attention(q, k, v)], num_heads=N, **kw)
        bias = g(1, N, S, S)
        ok("attention_bias" + name, "PackedAttention", [x, w, b, offsets, ends, bias], [attention(q, k, v, bias, .3)], num_heads=N,
           scale=.3, **kw)
    q, k, v, bias = g(n, D), g(n, D), g(n, 6), g(2 * D + 6)
    ok("heads", "PackedMultiHeadAttention", [q, k, v, None, offsets, ends], [attention(q, k, v)], num_heads=N)
    scores = g(B, 1, S, S)
    ok("heads_bias", "PackedMultiHeadAttention", [q, k, v, bias, offsets, ends, scores],
       [attention(q + bias[:D], k + bias[D:2 * D], v + bias[2 * D:], scores)], num_heads=N)
    qkv, bias = g(n, N, 3, H), g(3 * D)
    q, k, v = [qkv[:, :, i].reshape(n, D) for i in range(3)]
    ok("heads_packed", "PackedMultiHeadAttention", [qkv, None, None, None, offsets, ends], [attention(q, k, v)], num_heads=N)
    ok("heads_packed_bias", "PackedMultiHeadAttention", [qkv, None, None, bias, offsets, ends],
       [attention(*[a + bias[i * D:i * D + D] for i, a in enumerate((q, k, v))])], num_heads=N)


def bucket(distance, buckets, both, most):
    """Of a key's place less the query's, as T5 has it."""
    first = 0
    if both:
        buckets //= 2
        first = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    few = buckets // 2
    if distance < few:
        return first + distance
    log = np.float32(np.log(np.float32(distance / few))) / np.float32(np.log(np.float32(most / few)))
    return first + min(few + int(log * np.float32(buckets - few)), buckets - 1)


def biases():
    for both in (0, 1):
        for q, k, buckets, most in ((60, 60, 32, 128), (3, 70, 8, 20), (1, 1, 6, 9), (150, 5, 32, 128)):
            table = g(buckets, 3)
            at = np.array([[bucket(j - i, buckets, both, most) for j in range(k)] for i in range(q)])
            y = table[at].transpose(2, 0, 1)[None]
            ok(f"position_{both}_{q}_{k}", "RelativePositionBias", [table.T.reshape(table.shape), np.array([q]), np.array(k)], [y],
               is_bidirectional=both, max_distance=most, inits="bc" if q == 60 else "")
    x, xb, pos, w, b, eco = g(B, S, D), g(D), g(1, N, S, S), g(H, 6), g(6), g(1, N, 1, 1)

    def gated(x):
        q = (x + xb).reshape(B, S, N, H).transpose(0, 2, 1, 3) @ w + b
        u, r = [1 / (1 + np.exp(-q[..., h].sum(-1, keepdims=True))) for h in (slice(0, 3), slice(3, 6))]
        return (u * (r * eco - 1) + 2) * pos
    ok("gated", "GatedRelativePositionBias", [x, xb, pos, w, b, eco], [gated(x)], num_heads=N)
    rows = x.reshape(B * S, D)
    full = np.zeros_like(rows)
    full[real] = rows[real]
    ok("gated_packed", "GatedRelativePositionBias", [rows[real], xb, pos, w, b, eco, offsets], [gated(full.reshape(x.shape))],
       num_heads=N)


padding()
attentions()
biases()
report()
