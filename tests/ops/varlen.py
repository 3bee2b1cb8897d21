"""Recurrences over packed rows, with results from the definitions in numpy. usage: varlen.py TYPE OUT"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops2"))
from single import cases_in, f, report  # noqa: E402

kind = sys.argv[1]
t, g, ok = cases_in(kind)
i32 = np.int32
new = np.array([3, 1, 6])
B, T = len(new), int(new.sum())
ends = np.concatenate([[0], np.cumsum(new)]).astype(i32)


def convolutions():
    C, K = 3, 4
    for name, dil, bias, act in (("", 1, None, "none"), ("_bias", 1, g(C), "silu"), ("_dilated", 2, g(C), "swish")):
        L = (K - 1) * dil
        x, w, state = g(T, C), g(C, 1, K), g(B, C, L)
        y, last = np.zeros((T, C)), np.zeros((B, C, L))
        for b in range(B):
            s = np.concatenate([state[b].T, x[ends[b]:ends[b + 1]]])
            last[b] = s[-L:].T
            for i in range(new[b]):
                v = sum(s[L + i - (K - 1 - j) * dil] * w[:, 0, j] for j in range(K)) + (0 if bias is None else bias)
                y[ends[b] + i] = v if act == "none" else v / (1 + np.exp(-v))
        kw = dict(dilation=dil) if dil > 1 else {}
        ok("conv" + name, "VarlenCausalConvWithState", [x, w, ends, bias, state], [y, last], activation=act, **kw)
        count = np.array([2, 5, -1], i32)
        up = np.zeros((B, 2, C))
        for b in range(B):
            n = max(0, min(count[b], 2, new[b]))
            up[b, :n] = x[ends[b]:ends[b] + n]
        ok("conv_capture" + name, "VarlenCausalConvWithState", [x, w, ends, bias, state, count], [y, last, up], activation=act,
           state_update_capacity=2, **kw)


def deltas():
    H, HV, dk, dv = 2, 4, 4, 3

    def one(name, rule, lens=None, packed=False, grid=False, init=True, wide=False, qwen=False, sigmoid=False, unit=False, scale=0.):
        n = len(lens) if lens is not None else B
        cut = np.concatenate([[0], np.cumsum(lens if lens is not None else new)]).astype(i32)
        T = cut[-1]
        q, k, v = g(T, H, dk), g(T, H, dk), g(T, HV, dv)
        if not unit:
            k = (k / np.linalg.norm(k, axis=-1, keepdims=True)).astype(t).astype(np.float64)
        state = f(n, HV, dv, dk) if init else None
        decay = -abs(f(*((T, HV, dk) if wide else (T, HV)))) if "gated" in rule else None
        beta = f(T, HV) if "delta" in rule else None
        if beta is not None and not sigmoid:
            beta = abs(beta) / (1 + abs(beta))
        a, dt = (f(HV) * np.float32(.3), f(HV)) if qwen else (None, None)
        ge, be = decay, beta
        if qwen:
            ge = -np.exp(a) * np.log1p(np.exp(decay + dt))
        if sigmoid:
            be = 1 / (1 + np.exp(-beta))
        y, out = np.zeros((T, HV, dv)), np.zeros((n, HV, dv, dk), np.float32)
        for b in range(n):
            S = np.zeros((HV, dk, dv)) if state is None else state[b].transpose(0, 2, 1).astype(np.float64)
            for i in range(cut[b], cut[b + 1]):
                for h in range(HV):
                    qi, ki = q[i, h * H // HV], k[i, h * H // HV]
                    if unit:
                        qi, ki = qi / np.linalg.norm(qi), ki / np.linalg.norm(ki)
                    if ge is not None:
                        S[h] *= np.exp(ge[i, h])[:, None] if wide else np.exp(ge[i, h])
                    d = v[i, h] if be is None else be[i, h] * (v[i, h] - S[h].T @ ki)
                    S[h] += np.outer(ki, d)
                    y[i, h] = (scale or dk ** -.5) * S[h].T @ qi
            out[b] = S.transpose(0, 2, 1)
        ins = [q, k, v]
        if packed:
            ins = [np.concatenate([x.reshape(T, -1) for x in ins], 1), None, None]
        lead = (n, T // n) if grid else (T,)
        ins = [None if x is None else x.reshape(*lead, *x.shape[1:]) for x in ins]
        decay, beta = [None if x is None else x.reshape(*lead, *x.shape[1:]) for x in (decay, beta)]
        kw = dict(gate_activation="qwen") if qwen else {}
        if sigmoid:
            kw["beta_activation"] = "sigmoid"
        ok("delta_" + name, "GatedDeltaNet", ins + [cut if lens is None else None, decay, beta, state, a, dt],
           [y.reshape(*lead, HV, dv), out], update_rule=rule, qk_l2_norm=int(unit), scale=scale, **kw)
    for rule in ("linear", "gated", "delta", "gated_delta"):
        one(rule, rule)
    one("wide", "gated_delta", wide=True, scale=.7)
    one("qwen", "gated_delta", qwen=True, sigmoid=True, unit=True)
    one("packed", "gated_delta", packed=True)
    one("uniform", "gated_delta", lens=[4, 4])
    one("grid", "gated_delta", lens=[4, 4], grid=True, init=False)
    one("grid_packed", "delta", lens=[3, 3], grid=True, packed=True)
    one("fresh", "gated", init=False)


convolutions()
deltas()
report()
