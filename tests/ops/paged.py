"""Attention with caches in pages, to selected keys, and with normalised queries, with results from the
definitions in numpy. usage: paged.py TYPE OUT"""
import os
import sys

import ml_dtypes
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops2"))
from single import cases_in, f, report, rng, scalar  # noqa: E402

kind = sys.argv[1]
t, g, ok = cases_in(kind)
i32 = np.int32
B, NH, KV, H, BLOCK, PAGES, MOST = 3, 4, 2, 8, 4, 12, 4
new, past = np.array([3, 1, 5]), np.array([2, 7, 0])
ends = np.concatenate([[0], np.cumsum(new)]).astype(i32)
T = int(ends[-1])
table = rng.permutation(PAGES).reshape(B, MOST).astype(i32)
cos, sin = g(16, 2), g(16, 2)


def rms(x, w, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def turned(x, p, first=0, pairs=False):
    """[heads, size] at position p, four elements from one on."""
    y = x.copy()
    v = x[:, first:first + 4]
    a, b = (v[:, ::2], v[:, 1::2]) if pairs else (v[:, :2], v[:, 2:])
    r = a * cos[p] - b * sin[p], a * sin[p] + b * cos[p]
    y[:, first:first + 4] = np.stack(r, -1).reshape(-1, 4) if pairs else np.concatenate(r, -1)
    return y


def attend(q, k, v, seen, scale, cap=0., sinks=None):
    """Of heads [NH, size] to keys [n, KV, size] that are seen."""
    out = np.zeros((NH, v.shape[-1]))
    for h in range(NH):
        s = k[:, h * k.shape[1] // NH] @ q[h] * scale
        s = cap * np.tanh(s / cap) if cap else s
        s = s[seen]
        if sinks is not None:
            s = np.append(s, sinks[h])
        if not len(s):
            continue
        e = np.exp(s - s.max())
        e /= e.sum()
        out[h] = e[:seen.sum()] @ v[seen][:, h * k.shape[1] // NH]
    return out.reshape(-1)


def paged(name, op="PagedAttention", packed=False, rotary=0, first=0, pairs=0, norm=False, slots=None, window=-1, causal=1, cap=0.,
          sink=False, cache=None, channel=False, latent=0, chosen=None, aux=None, lens=None, **more):
    kv = 1 if latent else KV
    q, k, v = g(T, NH, H), g(T, kv, H), g(T, kv, H)
    kc, vc = g(PAGES, BLOCK, kv, H), g(PAGES, BLOCK, kv, H)
    scales, ct = [None, None], t
    if cache is not None:
        ct = cache
        scales = [abs(f(*((kv, 1, H) if channel else (1,)))) * .05 + np.float32(.02) for _ in "kv"]
        kc, vc = [(c / .05).clip(-128, 127).astype(np.float32).astype(ct) for c in (kc, vc)]

    def stored(x, s):
        if s is None:
            return x
        x = x.astype(np.float32) / (s[:, 0] if channel else s)
        return np.rint(x).clip(-128, 127).astype(ct) if ct == np.int8 else x.astype(ct)

    def loaded(c, s):
        return c.astype(np.float64) * (1 if s is None else s[:, 0] if channel else s)
    qn, kn, sinks = (g(H), g(H), None) if norm else (None, None, None)
    sinks = g(NH) if sink else None
    scale = .3 if latent or cap else H ** -.5
    kc2, vc2 = kc.copy(), vc.copy()
    qs = []
    for b in range(B):
        for i in range(new[b]):
            r, p = ends[b] + i, past[b] + i
            a, c = q[r], k[r]
            if norm:
                a, c = rms(a, qn), rms(c, kn)
            if rotary:
                a, c = turned(a, p, first, pairs), turned(c, p, first, pairs)
            qs.append(a)
            slot = slots[r] if slots is not None else table[b, p // BLOCK] * BLOCK + p % BLOCK
            if slot >= 0:
                kc2[slot // BLOCK, slot % BLOCK], vc2[slot // BLOCK, slot % BLOCK] = stored(c, scales[0]), stored(v[r], scales[1])
    y = []
    for b in range(B):
        n = past[b] + new[b]
        at = np.arange(n)
        keys = loaded(kc2[table[b, at // BLOCK], at % BLOCK], scales[0])
        vals = keys[..., :latent] if latent else loaded(vc2[table[b, at // BLOCK], at % BLOCK], scales[1])
        for i in range(new[b]):
            r, p = ends[b] + i, past[b] + i
            seen = (at <= p) if causal else at < n
            if window >= 0:
                seen = seen & (at > p - window)
            ka, va = keys, vals
            if chosen is not None:
                mark = np.zeros(aux[0].shape[1] if aux else n, bool)
                mark[[s for s in chosen[0][r, :chosen[1][r]] if s < len(mark)]] = True
                if aux:
                    mark[lens[b]:] = False
                    seen, ka, va = np.append(seen, mark), *[np.concatenate([x, np.broadcast_to(u[b], (u.shape[1], kv, H))])
                                                            for x, u in zip((keys, vals), (aux[0], aux[-1]))]
                else:
                    seen = seen & mark
            y.append(attend(qs[r], ka, va, seen, scale, cap, sinks))
    ins = [q.reshape(T, -1), k.reshape(T, -1), None if latent else v.reshape(T, -1)]
    if packed:
        ins = [np.concatenate(ins, 1), None, None]
    ins += [kc, None if latent else vc, ends, past.astype(i32), table]
    rot = [cos, sin] if rotary else [None, None]
    tail = [sinks, qn, kn] + scales
    if op == "PagedAttention":
        ins += rot + [slots] + tail
    else:
        ins += [slots, *chosen, aux[0] if aux else None, aux[1] if aux and len(aux) > 1 else None, lens] + rot + tail
    kw = dict(num_heads=NH, kv_num_heads=kv, **more)
    for a, val, none in (("do_rotary", rotary, 0), ("rotary_offset", first, 0), ("rotary_interleaved", pairs, 0),
                         ("local_window_size", window, -1), ("is_causal", causal, 1), ("softcap", cap, 0.)):
        if val != none:
            kw[a] = val
    if latent:
        kw.update(kv_cache_layout="LATENT", v_head_size=latent)
    if latent or cap:
        kw["scale"] = scale
    if cache is not None:
        kw.update(k_quant_type="PER_CHANNEL" if channel else "PER_TENSOR", v_quant_type="PER_CHANNEL" if channel else "PER_TENSOR")
    ok(name, op, ins, [np.stack(y), kc2] + ([] if latent else [vc2]), **kw)


def pages():
    paged("plain")
    paged("packed", packed=True, rotary=1)
    paged("norm", norm=True, rotary=1, first=8 - 4, pairs=1)
    slots = np.array([table[b, (past[b] + i) // BLOCK] * BLOCK + (past[b] + i) % BLOCK for b in range(B) for i in range(new[b])], i32)
    slots[[1, 5]] = -1
    paged("slots", slots=slots, packed=True)
    paged("window", window=3, sink=True)
    paged("both_ways", causal=0, window=4)
    paged("cap", cap=1.5)
    if kind == "f32":
        paged("bytes", cache=np.int8)
        paged("bytes_channel", cache=np.int8, channel=True, rotary=1)
        paged("float8", cache=ml_dtypes.float8_e4m3fn)
    paged("latent", latent=6, rotary=1, first=4)
    most = 4
    chosen = np.stack([rng.permutation(8)[:most] for _ in range(T)]).astype(i32), rng.randint(0, most + 1, T).astype(i32)
    chosen[0][np.arange(most) >= chosen[1][:, None]] = -1
    paged("sparse", "SparsePagedAttention", chosen=chosen, rotary=1, norm=True)
    paged("sparse_sink", "SparsePagedAttention", chosen=chosen, sink=True, packed=True)
    kw = dict(attention_mode="local_plus_selected", selected_kv_source="auxiliary")
    paged("sparse_local", "SparsePagedAttention", chosen=chosen, window=2, aux=(g(B, 9, KV, H), g(B, 9, KV, H)),
          lens=np.array([5, 9, 7], i32), **kw)
    paged("sparse_shared", "SparsePagedAttention", chosen=chosen, aux=(g(B, 9, 1, H),), lens=np.array([5, 9, 7], i32),
          auxiliary_kv_shared=1, **kw)


def dynamic(name, S, P, packed=False, past_len=None, rotary=0, norm=False, sink=False, smooth=0, window=-1, aux=None, **more):
    """B rows of S new tokens; the cache [B, KV, P, H] holds past_len[b] keys."""
    total = np.array([p + S for p in past_len])
    room = max(P, total.max())
    q, k, v = g(B, S, NH, H), g(B, S, KV, H), g(B, S, KV, H)
    pk, pv = (g(B, KV, P, H), g(B, KV, P, H)) if P else (None, None)
    qn, kn = (g(H), g(H)) if norm else (None, None)
    sinks = g(NH) if sink else None
    most = 3
    source = aux[0].shape[2] if aux else S
    sel = np.stack([rng.permutation(source)[:most] for _ in range(B * S)]).astype(i32)
    count = rng.randint(0, most + 1, B * S).astype(i32)
    sel[np.arange(most) >= count[:, None]] = -1
    kp, vp = np.zeros((B, KV, room, H)), np.zeros((B, KV, room, H))
    y = np.zeros((B, S, NH * H))
    for b in range(B):
        n = past_len[b]
        if P:
            kp[b, :, :n], vp[b, :, :n] = pk[b, :, :n], pv[b, :, :n]
        qs = []
        for i in range(S):
            a, c = q[b, i], k[b, i]
            if norm:
                a, c = rms(a, qn), rms(c, kn)
            if rotary:
                a, c = turned(a, n + i, 4), turned(c, n + i, 4)
            qs.append(a)
            kp[b, :, n + i], vp[b, :, n + i] = c, v[b, i]
        for i in range(S):
            at, r = np.arange(room), b * S + i
            mark = np.zeros(source if aux else room, bool)
            mark[sel[r, :count[r]]] = True
            seen = at <= n + i
            ka, va = kp[b].transpose(1, 0, 2), vp[b].transpose(1, 0, 2)
            if aux:
                seen = np.append(seen & (at > n + i - window), mark)
                ka, va = [np.concatenate([x, u[b].transpose(1, 0, 2)]) for x, u in zip((ka, va), (aux[0], aux[-1]))]
            else:
                seen = seen & mark
            y[b, i] = attend(qs[i], ka, va, seen, H ** -.5, 0., sinks if sink else np.zeros(NH) if smooth else None)
    ins = [x.reshape(B, S, -1) for x in (q, k, v)]
    if packed:
        ins = [np.concatenate(ins, -1), None, None]
    ins += [pk, pv, aux[0] if aux else None, aux[1] if aux and len(aux) > 1 else None, sel, count, (total - 1).astype(i32),
            scalar(total.max(), i32), cos if rotary else None, sin if rotary else None, None, qn, kn, sinks]
    if rotary:
        more.update(do_rotary=1, rotary_offset=4)
    if aux:
        more.update(attention_mode="local_plus_selected", selected_kv_source="auxiliary", local_window_size=window,
                    auxiliary_kv_shared=int(len(aux) == 1))
    ok(name, "DynamicSparseAttention", ins, [y, kp, vp], num_heads=NH, kv_num_heads=KV, smooth_softmax=smooth, **more)


def contiguous():
    none = [0, 0, 0]
    dynamic("dynamic_prompt", 5, 0, past_len=none, rotary=1, norm=True)
    dynamic("dynamic_packed", 5, 0, past_len=none, packed=True, smooth=1)
    dynamic("dynamic_sink", 5, 0, past_len=none, sink=True)
    dynamic("dynamic_local", 2, 6, past_len=[4, 2, 3], window=3, aux=(g(B, KV, 7, H), g(B, KV, 7, H)))
    dynamic("dynamic_shared", 2, 6, past_len=[4, 2, 3], window=2, aux=(g(B, KV, 7, H),), rotary=1)
    # GroupQueryAttention's norms
    S = 4
    q, k, v, qn, kn = g(B, S, NH, H), g(B, S, KV, H), g(B, S, KV, H), g(H), g(H)
    y = np.zeros((B, S, NH * H))
    for b in range(B):
        ks = np.stack([turned(rms(k[b, i], kn, 1e-3), i) for i in range(S)])
        for i in range(S):
            y[b, i] = attend(turned(rms(q[b, i], qn, 1e-3), i), ks, v[b], np.arange(S) <= i, H ** -.5)
    ok("group_norms", "GroupQueryAttention", [x.reshape(B, S, -1) for x in (q, k, v)] + [None, None, np.full(B, S - 1, i32),
       scalar(S, i32), cos, sin, None, None, None, None, None, qn, kn], [y], num_heads=NH, kv_num_heads=KV, do_rotary=1,
       qk_norm_epsilon=1e-3)


pages()
contiguous()
report()
