"""Rarer operators of com.microsoft, with onnxruntime's results. usage: contrib.py OUT"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ops2"))
from single import F, MS, T, case, f, proto, report, rng, scalar, u8  # noqa: E402

I32, I64 = T.INT32, T.INT64


def ints(hi, *s, lo=0, t=np.int64):
    return rng.randint(lo, hi, s).astype(t)


def hashes():
    for positive in (0, 1):
        y = T.UINT32 if positive else I32
        for t in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64):
            case(f"murmur_{np.dtype(t).name}_{positive}", "MurmurHash3", [(f(3, 4) * 1000).astype(np.int64).astype(t)], [y], MS,
                 positive=positive, seed=7)
        words = np.array([["", "a", "ab"], ["abc", "abcd", "tea for two, é"]])
        case(f"murmur_string_{positive}", "MurmurHash3", [words], [y], MS, positive=positive)
    for n in (1, 2, 3, 9):
        case(f"repeat_{n}", "NGramRepeatBlock", [ints(4, 3, 7), f(3, 4)], [F], MS, ngram_size=n)


def grams():
    for t, y in ((np.int64, I64), (np.int32, I32)):
        kw = dict(max_ngram_size=3, n_head_per_ngram=2, pad_id=1)
        mul, sizes = ints(99999, 3, lo=-99999, t=t), np.array([101, 103, 107, 109], t)
        ids, past = ints(5, 2, 6, t=t), ints(5, 2, 2, t=t)
        off, eos, seg = ints(1000, 4, t=t), scalar(3, t), np.array([[0, 0, 1, 1, 1, 2], [0, 1, 1, 1, 2, 2]], np.int32)
        name = "gram_" + np.dtype(t).name
        case(name, "NGramHashMapping", [ids, mul, sizes], [y, y], MS, **kw)
        case(name + "_past", "NGramHashMapping", [ids, mul, sizes, past, off], [y, y], MS, **kw)
        case(name + "_eos", "NGramHashMapping", [ids, mul, sizes, past, off, eos], [y, y], MS, reset_on_eos=1, **kw)
        case(name + "_eos_only", "NGramHashMapping", [ids, mul, sizes, None, None, eos], [y, y], MS, **kw)
        case(name + "_segments", "NGramHashMapping", [ids, mul, sizes, past, None, eos, seg], [y, y], MS, reset_on_eos=1, **kw)
        case(name + "_segments_pad", "NGramHashMapping", [ids, mul, sizes, past, None, None, seg], [y, y], MS, **kw)
        case(name + "_short", "NGramHashMapping", [ids[:, :1], mul, sizes, past], [y, y], MS, **kw)
        flat, ends = ints(5, 9, t=t), np.array([0, 4, 5, 9], np.int32)
        past, seg = ints(5, 3, 2, t=t), np.array([0, 0, 1, 1, 2, 0, 1, 1, 1], np.int32)
        name = "varlen_" + np.dtype(t).name
        case(name, "VarlenNGramHashMapping", [flat, mul, sizes, ends], [y, y], MS, **kw)
        case(name + "_past", "VarlenNGramHashMapping", [flat, mul, sizes, ends, past, off, eos], [y, y], MS, reset_on_eos=1, **kw)
        case(name + "_segments", "VarlenNGramHashMapping", [flat, mul, sizes, ends, past, None, eos, seg,
             np.array([[0, 0], [1, 2], [0, 1]], np.int32)], [y, y, I32], MS, reset_on_eos=1, **kw)
        case(name + "_segments_alone", "VarlenNGramHashMapping", [flat, mul, sizes, ends, None, None, None, seg], [y, y, I32], MS,
             **kw)
        case(name + "_states", "VarlenNGramHashMapping", [flat, mul, sizes, ends, past, None, None, None, None,
             np.array([2, 1, 9], np.int32)], [y, y, None, y], MS, state_update_capacity=3, **kw)


def decoding():
    src = np.array([4, 5, 6, 7, 8, 5, 6, 9])
    cur = np.array([1, 4])
    case("bifurcation_none", "BifurcationDetector", [src, np.array([1, 4, 5, 6]), np.array([0])], [I64, I64], MS)
    for name, at, pred in (("all", 5, [5, 6, 9, 2]), ("some", 5, [5, 7, 9, 2]), ("first", 6, [1, 2, 3]), ("end", 8, [3]),
                           ("zero", 0, [4, 5, 6, 7, 8, 1, 1, 1, 1])):
        case("bifurcation_" + name, "BifurcationDetector", [src, cur, np.array([at]), np.array(pred)], [I64, I64], MS)
        case("bifurcation_long_" + name, "BifurcationDetector", [src, cur, np.array([at]), np.array(pred)], [I64, I64], MS,
             min_ngram_size=2, max_ngram_size=5)
    for i, s in enumerate(((4, 6), (6, 4), (1, 5), (5, 1), (1, 1), (1, 7, 9))):
        case(f"warp_{i}", "DynamicTimeWarping", [abs(f(*s))], [I32], MS)
    words = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0], [5, 6, 1, 2, 3]], np.int32)
    case("word_conv", "WordConvEmbedding", [words, f(6, 1, 2, 4), f(6), f(7, 4)], [F], MS)


def pictures():
    boxes = np.array([[0, 0, 1, 1], [.1, .2, .9, .7], [.5, .5, 1.2, .4], [-.1, 0, .5, .5]], np.float32)
    for mode in ("bilinear", "nearest"):
        for size in ([3, 4], [1, 5], [2, 1]):
            case(f"crop_{mode}_{size[0]}_{size[1]}", "CropAndResize", [f(2, 3, 5, 6), boxes, np.array([0, 1, 1, 0], np.int32),
                 np.array(size, np.int32)], [F], MS, mode=mode, extrapolation_value=.5)
    mask = (rng.rand(1, 1, 6, 7) > .3).astype(np.int32)
    case("mask_pool", "MaxpoolWithMask", [f(2, 3, 6, 7), mask], [F], MS, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1])
    case("mask_pool_1d", "MaxpoolWithMask", [f(2, 3, 9), mask[:, :, 0, :1].repeat(9, 2)], [F], MS, kernel_shape=[3])
    case("mask_pool_row", "MaxpoolWithMask", [f(2, 3, 7), mask[:, :, 0]], [F], MS, kernel_shape=[3], pads=[1, 1])
    case("mask_pool_3d", "MaxpoolWithMask", [f(1, 2, 3, 4, 5), (rng.rand(1, 1, 3, 4, 5) > .2).astype(np.int32)], [F], MS,
         kernel_shape=[2, 2, 3])
    for pads in ([0, 0, 0, 0], [1, 0, 1, 2]):
        case(f"convt_pads_{pads[0]}", "ConvTransposeWithDynamicPads", [f(1, 3, 4, 5), f(3, 2, 3, 3), np.array(pads), f(2)], [F], MS,
             strides=[2, 2])


def streams():
    for c, h in ((3, 4), (2, 1)):
        x, flat = f(2, 5, c, h), f(2, 5, c * h)
        for i, g in enumerate(((2, 5, c), (2, 5, c, 1), (2, 5, c, h))):
            case(f"pre_mix_{c}_{i}", "HyperConnectionPreMix", [x, f(*g)], [F], MS, reduction_scale=.5)
            case(f"pre_mix_flat_{c}_{i}", "HyperConnectionPreMix", [flat, f(*g)], [F], MS, num_branches=c)
            for mix in (None, f(2, 5, c, c)):
                case(f"post_mix_{c}_{i}_{mix is None}", "HyperConnectionPostMix", [x, f(2, 5, h), f(*g), mix], [F], MS)
                case(f"post_mix_flat_{c}_{i}_{mix is None}", "HyperConnectionPostMix", [flat, f(2, 5, h), f(*g), mix], [F], MS,
                     num_branches=c)
        case(f"pre_mix_whole_{c}", "HyperConnectionPreMix", [flat, f(2, 5, c * h)], [F], MS, num_branches=c)
    k = [f(2, 3, 4, 8), f(2, 3, 4, 8), f(2, 3, 8), f(4, 8), f(4, 8)]
    case("engram", "EngramGate", k, [F], MS)
    case("engram_normed", "EngramGate", k + [f(4, 8)], [F, F], MS, epsilon=1e-3)


def packed():
    for kind in (0, 1):
        for N, K, block in ((6, 32, 16), (5, 24, 32), (3, 7, 16)):
            case(f"bnb4_{kind}_{K}", "MatMulBnb4", [f(2, 3, K), u8((N * K + 1) // 2), abs(f((N * K + block - 1) // block))], [F], MS,
                 inits="bc", N=N, K=K, block_size=block, quant_type=kind)
    for kind, block, head in ((0, 32, 4), (1, 32, 5)):
        for K in (64, 70):
            N, blocks = 5, (K + block - 1) // block
            blob = u8(N, blocks, head + block // 2)
            blob[:, :, :4] = (f(N, blocks) * .1).view(np.uint8).reshape(N, blocks, 4)
            if kind == 1:
                blob[:, :, 4] &= 15
            case(f"fpq4_{kind}_{K}", "MatMulFpQ4", [f(3, K), blob.ravel(), np.array([K, N])], [F], MS, inits="bc",
                 blk_quant_type=kind)
    ids, seg = ints(10, 2, 5, t=np.int32), ints(2, 2, 5, t=np.int32)
    z = scalar(120, np.uint8)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    s = [scalar(v) for v in (.01, .02, .03, .01, .02)]
    case("qembed", "QEmbedLayerNormalization", [ids, seg, u8(10, 8), u8(6, 8), u8(2, 8), u8(8), u8(8), mask] + s + [z] * 5,
         [F, I32], MS)
    case("qembed_plain", "QEmbedLayerNormalization", [ids, None, u8(10, 8), u8(6, 8), None, u8(8), u8(8), None] + s[:2] + [None]
         + s[3:] + [z, z, None, z, z], [F, I32], MS)
    case("sample", "SampleOp", [f(3, 4)], [F], MS)


def experts():
    E, H, D = 4, 32, 64
    for bits in (4, 8):
        per = 8 // bits
        for block in (0, 16):
            for act, n in (("silu", 1), ("swiglu", 2)):
                for zeros in (False, True):
                    def layer(rows, cols):
                        s = (E, rows, cols // block) if block else (E, rows)
                        z = s[:2] + ((s[2] + per - 1) // per,) if block else (E, (rows + per - 1) // per)
                        return [u8(E, rows, cols // per), abs(f(*s)) * .01, f(E, rows)], u8(*z) if zeros else None
                    one, z1 = layer(n * D, H)
                    two, z2 = layer(H, D)
                    kw = dict(swiglu_fusion=1, activation_alpha=1.7, activation_beta=1., swiglu_limit=2.) if n == 2 else {}
                    if block:
                        kw["block_size"] = block
                    case(f"qmoe_{bits}_{block}_{act}_{zeros}", "QMoE", [f(5, H), f(5, E)] + one + two + [None] * 3 + [z1, z2],
                         [F], MS, inits="cdefghlm" if bits == 4 else "", k=2, activation_type=act, expert_weight_bits=bits, **kw)
    r = abs(f(6, E))
    for norm in (0, 1):
        case(f"qmoe_weights_{norm}", "QMoE", [f(2, 3, H), f(6, E), u8(E, D, H), abs(f(E, D)) * .01, None, u8(E, H, D),
             abs(f(E, H)) * .01] + [None] * 7 + [r], [F], MS, inits="cdfg", k=2, activation_type="identity", expert_weight_bits=8,
             normalize_routing_weights=norm)


def attention():
    N, H, T5 = 2, 16, 5
    D = N * H
    q = [f(2, 1, D), f(2, 1, D), f(2, 1, D)]
    mask = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 1]], np.int32)
    past, at = [f(2, N, 9, H), f(2, N, 9, H)], scalar(T5 - 1, np.int32)
    beams = [scalar(2, np.int32), ints(2, 1, 2, 9, t=np.int32)]
    kw = dict(num_heads=N, past_present_share_buffer=1)

    def decoder(name, q, mask, scores, *more, **other):
        case("decoder_" + name, "DecoderMaskedMultiHeadAttention", q + [mask, scores] + past + [at] + list(more), [F, F, F], MS,
             **kw, **other)
    decoder("shared", q, None, None)
    decoder("mask", q, mask, f(1, N, 1, T5), scale=.3)
    decoder("bias", q, None, None, None, None, f(3 * D))
    decoder("beams", q, None, None, *beams)
    case("decoder_cross", "DecoderMaskedMultiHeadAttention", [f(2, 1, D), f(2, N, 6, H), f(2, N, 6, H)], [F], MS, num_heads=N)
    case("decoder_qk", "DecoderMaskedMultiHeadAttention", [f(2, 1, D), f(2, N, 6, H), f(2, N, 6, H)], [F, None, None, F], MS,
         num_heads=N, output_qk=1)
    cos, sin, ids = f(32, 8), f(32, 8), ints(32, 3, 2, 5)
    for layout, s in ((0, [2, 3, 3]), (0, [8, 0, 0]), (1, [4, 2, 2]), (1, [2, 3, 3])):
        for il in (0, 1):
            case(f"mrotary_{layout}_{s[0]}_{il}", "MRotaryEmbedding", [f(2, 5, 2 * 16), ids, cos, sin], [F], MS, mrope_section=s,
                 mrope_layout=layout, interleaved=il, num_heads=2)
    case("mrotary_4d", "MRotaryEmbedding", [f(2, 3, 5, 20), ids, cos, sin], [F], MS, mrope_section=[2, 3, 3], num_heads=3,
         rotary_embedding_dim=16)


def quantized_caches():
    NH, KV, H = 4, 2, 16
    cos, sin = f(32, H // 2), f(32, H // 2)
    for bits, t, wide in ((8, np.int8, H), (4, np.uint8, H // 2)):
        for how, shape in (("TENSOR", (1,)), ("CHANNEL", (1, KV, 1, H))):
            for S, P in ((1, 5), (3, 0), (3, 4)):
                past = [ints(256, 1, KV, P, wide).astype(t) for _ in "kv"]
                scales = [(rng.rand(*shape) * 2 ** -bits + 2. ** -bits).astype(np.float32) * 4 for _ in "kv"]
                case(f"gqa_{bits}_{how}_{S}_{P}", "GroupQueryAttention",
                     [f(1, S, NH * H), f(1, S, KV * H), f(1, S, KV * H)] + past + [np.array([S + P - 1], np.int32),
                     scalar(S + P, np.int32), cos, sin, None, None, None] + scales, [F] + [proto(past[0]).data_type] * 2, MS,
                     num_heads=NH, kv_num_heads=KV, do_rotary=1, k_quant_type="PER_" + how, v_quant_type="PER_" + how,
                     kv_cache_bit_width=bits)


def csr(blocks):
    rows = np.cumsum(np.pad(blocks.sum(2), ((0, 0), (1, 0))), 1).astype(np.int32)
    cols = np.full((len(blocks), rows[:, -1].max()), -1, np.int32)
    for i, b in enumerate(blocks):
        cols[i, :rows[i, -1]] = np.nonzero(b)[1]
    return rows, cols


def sparse():
    NH, KV, H, B, size, most = 4, 2, 16, 2, 16, 64
    n = most // size
    blocks = np.tril(rng.rand(2, n, n) > .4)
    blocks[:, np.arange(n), np.arange(n)] = 1
    cos, sin = f(most, H // 2), f(most, H // 2)

    def one(name, S, lens, total, packed=False, **kw):
        q = [f(B, S, (NH + 2 * KV) * H), None, None] if packed else [f(B, S, NH * H), f(B, S, KV * H), f(B, S, KV * H)]
        past = [f(B, KV, most, H), f(B, KV, most, H)]
        if S > 1:
            past = [p * 0 for p in past]
        case("sparse_" + name, "SparseAttention", q + past + list(csr(blocks.astype(np.int32))) + [scalar(total, np.int32),
             np.array(lens, np.int32), cos, sin], [F, F, F], MS, alias={"y1": "d", "y2": "e"}, num_heads=NH, kv_num_heads=KV,
             sparse_block_size=size, **kw)
    one("prompt", 40, [40, 40], 40)
    one("rotary", 40, [40, 40], 40, do_rotary=1)
    # of rows shorter than the longest, onnxruntime mixes up the heads' probabilities
    one("decode", 1, [50, 50], 50, do_rotary=1, rotary_interleaved=1)
    one("packed", 1, [64, 64], 64, packed=True, scale=.4)


def attending():
    """An LSTM with attention over a memory."""
    H, B, S, I, D, U, A, L = 4, 2, 5, 3, 6, 7, 5, 8
    for n, d in enumerate(("forward", "reverse", "bidirectional") * 2):
        k = 2 if d == "bidirectional" else 1
        aw = f(k, D + H, A) * .3 if n < 3 else None
        size = A if n < 3 else D
        lens = np.array([3, 5], np.int32) if n % 2 else None
        ins = [f(S, B, I), f(k, 4 * H, I + size) * .3, f(k, 4 * H, H) * .3, f(k, 8 * H) if n else None, lens,
               f(k, B, H) if n > 1 else None, f(k, B, H) if n > 2 else None, f(k, 3 * H) if n > 3 else None,
               f(k, H, U), f(k, D, U), f(k, U), f(B, L, D), np.array([8, 5], np.int32) if n % 3 else None, aw]
        kw = dict(clip=.4) if n == 4 else dict(input_forget=1) if n == 5 else {}
        if n == 2:
            kw["activations"] = ["Sigmoid", "Softsign", "Relu", "HardSigmoid", "Tanh", "Tanh"]
            kw["activation_alpha"], kw["activation_beta"] = [.3], [.6]
        case(f"attn_lstm_{n}", "AttnLSTM", ins, [F, F, F], MS, hidden_size=H, direction=d, **kw)


for make in (hashes, grams, decoding, pictures, streams, packed, experts, attention, sparse, attending,
             quantized_caches):
    make()
report()
