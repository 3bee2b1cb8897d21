"""Searches for sequences around small random decoders, with onnxruntime's results. usage: search.py OUT"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper, numpy_helper

ort.set_default_logger_severity(4)
out = sys.argv[-1]
rng = np.random.RandomState(3)
V, H, D = 13, 2, 4
E = H * D
EOS, PAD = 1, 0
refused = []


def f(*s):
    return rng.randn(*s).astype(np.float32)


class Graph:
    """A subgraph under construction: nodes are made by their operator's name."""

    def __init__(self):
        self.nodes, self.inits, self.n = [], [], 0

    def const(self, a):
        name = f"c{len(self.inits)}"
        self.inits.append(numpy_helper.from_array(np.asarray(a), name))
        return name

    def __getattr__(self, op):
        def make(*ins, n=1, name=None, **attrs):
            outs = [name or f"t{self.n + i}" for i in range(n)]
            self.n += n
            ins = [i if isinstance(i, str) else self.const(i) for i in ins]
            self.nodes.append(helper.make_node(op, ins, outs, **attrs))
            return outs[0] if n == 1 else outs
        return make

    def done(self, name, ins, outs):
        return helper.make_graph(self.nodes, name, [helper.make_tensor_value_info(*i) for i in ins],
                                 [helper.make_tensor_value_info(*o) for o in outs], self.inits)


def heads(g, x):
    """[rows, steps, E] to [rows, H, steps, D]"""
    return g.Transpose(g.Reshape(x, np.array([0, 0, H, D])), perm=[0, 2, 1, 3])


def attend(g, q, k, v, mask=None, causal=False):
    s = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), np.float32(.5))
    if mask:
        m = g.Unsqueeze(g.Cast(mask, to=T.FLOAT), np.array([1, 2]))
        s = g.Add(s, g.Mul(g.Sub(np.float32(1), m), np.float32(-10000)))
    if causal:
        t = g.Squeeze(g.Shape(k, start=2, end=3))
        n = g.Squeeze(g.Shape(q, start=2, end=3))
        rows = g.Range(g.Sub(t, n), t, np.int64(1))
        cols = g.Range(np.int64(0), t, np.int64(1))
        s = g.Where(g.LessOrEqual(cols, g.Unsqueeze(rows, np.array([1]))), s, np.float32(-10000))
    y = g.Transpose(g.MatMul(g.Softmax(s, axis=-1), v), perm=[0, 2, 1, 3])
    return g.Reshape(y, np.array([0, 0, E]))


class Gpt:
    def __init__(self, layers=1, sharp=2.0):
        self.wte, self.wpe = f(V, E) * .7, f(32, E) * .3
        self.w = [(f(E, 3 * E) * .6, f(E, E) * .6) for _ in range(layers)]
        self.sharp = np.float32(sharp)

    def graph(self, name="decoder"):
        g = Graph()
        x = g.Add(g.Gather(self.wte, "input_ids"), g.Gather(self.wpe, "position_ids"))
        ins = [(n, T.INT32, ["B", s]) for n, s in (("input_ids", "S"), ("position_ids", "S"), ("attention_mask", "T"))]
        outs = [("logits", T.FLOAT, ["B", "S", V])]
        for i, (w, o) in enumerate(self.w):
            q, k, v = g.Split(g.MatMul(x, w), n=3, axis=2, num_outputs=3)
            pk, pv = g.Split(f"past_{i}", n=2, axis=0, num_outputs=2)
            k = g.Concat(g.Squeeze(pk, np.array([0])), heads(g, k), axis=2)
            v = g.Concat(g.Squeeze(pv, np.array([0])), heads(g, v), axis=2)
            g.Concat(g.Unsqueeze(k, np.array([0])), g.Unsqueeze(v, np.array([0])), axis=0, name=f"present_{i}")
            x = g.Add(x, g.MatMul(attend(g, heads(g, q), k, v, "attention_mask", True), o))
            ins.append((f"past_{i}", T.FLOAT, [2, "B", H, "P", D]))
            outs.append((f"present_{i}", T.FLOAT, [2, "B", H, "T", D]))
        never = np.zeros(V, np.float32)
        never[PAD] = -50
        g.Add(g.Mul(g.MatMul(x, self.wte.T.copy()), self.sharp), never, name="logits")
        return g.done(name, ins, outs)


class Coder:
    """An encoder and its decoder, of tokens or of sound; together: the encoder makes the first step as well."""

    def __init__(self, layers=1, sound=False, hidden=False, whole=False, together=True):
        self.sound, self.hidden, self.whole, self.together = sound, hidden, whole, together
        self.wte, self.src = f(V, E), f(3 if sound else V, E) * .7
        self.out = f(E, V) * 2
        self.w = [(f(E, 3 * E) * .6, f(E, E) * .6, f(E, 2 * E) * .6, f(E, E) * .6) for _ in range(layers)]

    def encode(self, g):
        x = g.MatMul(g.Transpose("encoder_input_ids", perm=[0, 2, 1]), self.src) if self.sound else \
            g.Gather(self.src, "encoder_input_ids")
        return g.Identity(x, name="encoder_hidden_states")

    def cross(self, g, hidden, i, names=(None, None)):
        k, v = g.Split(g.MatMul(hidden, self.w[i][2]), n=2, axis=2, num_outputs=2)
        return [g.Identity(heads(g, a), name=n) for a, n in zip((k, v), names)]

    def step(self, g, ids, past, cross):
        x = g.Gather(self.wte, ids)
        if self.whole and past:    # all tokens come again: only the last counts
            x = g.Slice(x, np.array([-1]), np.array([2 ** 31]), np.array([1]))
        mask = None if self.sound else "encoder_attention_mask"
        for i, (w, o, _, c) in enumerate(self.w):
            q, k, v = g.Split(g.MatMul(x, w), n=3, axis=2, num_outputs=3)
            k, v = heads(g, k), heads(g, v)
            if past:
                k, v = g.Concat(past[i][0], k, axis=2), g.Concat(past[i][1], v, axis=2)
            k, v = g.Identity(k, name=f"present_key_self_{i}"), g.Identity(v, name=f"present_value_self_{i}")
            x = g.Add(x, g.MatMul(attend(g, heads(g, q), k, v, causal=True), o))
            x = g.Add(x, g.MatMul(attend(g, heads(g, x), cross[i][0], cross[i][1], mask), c))
        if self.hidden and past:
            x = g.Add(x, g.Mul(g.ReduceMean("encoder_hidden_states", np.array([1]), keepdims=1), np.float32(.5)))
        g.MatMul(x, self.out, name="logits")

    def pasts(self, what, kind, rows="B"):
        n = {"self": "P", "cross": "N"}[kind]
        return [(f"{what}_{kv}_{kind}_{i}", T.FLOAT, [rows, H, n, D]) for i in range(len(self.w)) for kv in ("key", "value")]

    def encoder(self):
        g = Graph()
        hidden = self.encode(g)
        ins = [("encoder_input_ids", T.FLOAT, ["B", 3, "N"])] if self.sound else \
            [(n, T.INT32, ["B", "N"]) for n in ("encoder_input_ids", "encoder_attention_mask")]
        cross = [self.cross(g, hidden, i, (f"present_key_cross_{i}", f"present_value_cross_{i}")) for i in range(len(self.w))]
        if not self.together:
            return g.done("encoder", ins, self.pasts("present", "cross"))
        self.step(g, "decoder_input_ids", None, cross)
        return g.done("encoder", ins + [("decoder_input_ids", T.INT32, ["B", "S"])],
                      [("logits", T.FLOAT, ["B", "S", V]), ("encoder_hidden_states", T.FLOAT, ["B", "N", E])]
                      + self.pasts("present", "self") + self.pasts("present", "cross"))

    def graph(self):
        g = Graph()
        n = range(len(self.w))
        self.step(g, "input_ids", [(f"past_key_self_{i}", f"past_value_self_{i}") for i in n],
                  [(f"past_key_cross_{i}", f"past_value_cross_{i}") for i in n])
        ins = [("input_ids", T.INT32, ["B", "S" if self.whole else 1])]
        if not self.sound:
            ins.append(("encoder_attention_mask", T.INT32, ["B", "N"]))
        if self.hidden:
            ins.append(("encoder_hidden_states", T.FLOAT, ["B", "N", E]))
        return g.done("decoder", ins + self.pasts("past", "self") + self.pasts("past", "cross"),
                      [("logits", T.FLOAT, ["B", 1, V])] + self.pasts("present", "self"))


def case(name, op, ins, outs, attrs, want=None, same=True):
    """ins: name to array; outs: names. same: as onnxruntime gives it; else as it gives but for what `want` says."""
    node = helper.make_node(op, [n if ins.get(n) is not None else "" for n in ins], outs, domain="com.microsoft",
                            eos_token_id=EOS, pad_token_id=PAD, **attrs)
    given = {n: a for n, a in ins.items() if a is not None}
    kinds = {"sequences": T.INT32}
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype),
                                       [f"{n}{i}" for i in range(a.ndim)] if a.ndim > 1 else a.shape) for n, a in given.items()],
        [helper.make_tensor_value_info(o, kinds.get(o, T.FLOAT), None) for o in outs if o])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)])
    try:
        got = ort.InferenceSession(model.SerializeToString()).run(None, given)
    except Exception as e:
        refused.append(f"{name}: {str(e)[:300]}")
        if want is None:
            return
        got = [None] * len(outs)
    if want:
        got = [want(i, g) for i, g in enumerate(got)]
    data = f"{out}/{name}/test_data_set_0"
    os.makedirs(data)
    onnx.save(model, f"{out}/{name}/model.onnx")
    for kind, values in (("input", given.values()), ("output", got)):
        for i, v in enumerate(values):
            with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                file.write(numpy_helper.from_array(v).SerializeToString())


def one(v, t=np.int32):
    return np.array([v], t)


IDS = np.array([[3, 7, 5, 4], [PAD, PAD, 2, 6], [PAD, 9, 9, 8]], np.int32)


def beam(name, model, beams=3, kept=2, length=10, ids=IDS, outs=("sequences", "sequences_scores"), op="BeamSearch",
         want=None, attrs=None, **more):
    ins = {"ids": ids, "max_length": one(length), "min_length": one(0), "num_beams": one(beams), "kept": one(kept),
           "length_penalty": one(1, np.float32), "repetition_penalty": None, "vocab_mask": None, "prefix_vocab_mask": None,
           "attention_mask": None, "decoder_input_ids": None, "logits_processor": None}
    a = {"model_type": 0, "decoder": model.graph(), **(attrs or {})}
    for k, v in more.items():
        if k in ins:
            ins[k] = v
        else:
            a[k] = v
    case("beam_" + name, op, ins, list(outs), a, want)


def padded(seq, n):
    """After an entry's first pad, which no decoder gives: when all have one, onnxruntime leaves the rest unwritten."""
    seq = seq.copy()
    for row in seq:
        ends = np.flatnonzero(row[n:] == PAD)
        if ends.size:
            row[n + ends[0]:] = PAD
    return seq


def greedy(name, model, op="GreedySearch", length=10, ids=IDS, outs=("sequences",), want=None, **more):
    ins = {"ids": ids, "max_length": one(length), "min_length": None, "repetition_penalty": None, "vocab_mask": None,
           "prefix_vocab_mask": None, "attention_mask": None}
    if op == "Sampling":
        ins.update(presence_mask=None, seed=None)
    a = {"model_type": 0, "decoder": model.graph()}
    for k, v in more.items():
        if k in ins:
            ins[k] = v
        else:
            a[k] = v
    case(op.lower() + "_" + name, op, ins, list(outs), a, want or (lambda i, seq: padded(seq, ids.shape[1])))


WHOLE = ("sequences", "sequences_scores", "scores")


def decoders():
    """Of several entries, onnxruntime takes an entry's best score from others when it asks whether it is done, and goes on
    from others' rows when it is: early_stopping asks no scores, and one entry has no others."""
    for i in range(4):
        m = Gpt(1 + i % 2, sharp=1 + i)
        beam(f"plain_{i}", m, beams=1 + i, kept=1 + i // 2, ids=IDS[i % 2:i % 2 + 1])
        beam(f"early_{i}", m, beams=2 + i, early_stopping=1)
        greedy(f"plain_{i}", m)
    beam("scores", m, ids=IDS[:1], outs=WHOLE, min_length=one(11))
    vocab = np.ones(V, np.int32)
    vocab[[3, 4, 8]] = 0
    first = (rng.rand(3, V) > .5).astype(np.int32)
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]], np.int32)
    m = Gpt(2)
    for name, kw in (("min", dict(min_length=one(8))), ("repeat", dict(repetition_penalty=one(1.7, np.float32))),
                     ("vocab", dict(vocab_mask=vocab)), ("first", dict(prefix_vocab_mask=first)), ("mask", dict(attention_mask=mask)),
                     ("ngram1", dict(no_repeat_ngram_size=1)), ("ngram2", dict(no_repeat_ngram_size=2)),
                     ("ngram3", dict(no_repeat_ngram_size=3, min_length=one(11), length=12)),
                     ("all", dict(min_length=one(6), repetition_penalty=one(.8, np.float32), vocab_mask=vocab, no_repeat_ngram_size=2))):
        greedy(name, m, **kw)
        beam(name, m, early_stopping=1, **kw)
    for p in (0., 2., -1.):
        beam(f"length_{p}", m, length_penalty=one(p, np.float32), ids=IDS[2:])
    beam("init", m, init_decoder=m.graph("init_decoder"), early_stopping=1)
    beam("short", m, length=5)


def encoders():
    for i, kw in enumerate((dict(), dict(layers=2), dict(hidden=True), dict(whole=True), dict(together=False),
                            dict(together=False, whole=True, layers=2))):
        m = Coder(**kw)
        more = dict(model_type=1, encoder=m.encoder(), decoder_start_token_id=2, early_stopping=1)
        beam(f"coder_{i}", m, beams=2 + i % 3, **more)
        beam(f"coder_mask_{i}", m, min_length=one(5), attention_mask=(rng.rand(*IDS.shape) > .3).astype(np.int32), **more)


def sounds():
    """Without encoder_hidden_states: of those onnxruntime hands a decoder of sound the shape alone."""
    for i, kw in enumerate((dict(), dict(layers=2), dict(whole=True))):
        m = Coder(sound=True, **kw)
        more = dict(op="WhisperBeamSearch", model_type=2, encoder=m.encoder(), early_stopping=1, ids=f(2, 3, 6))
        beam(f"sound_{i}", m, decoder_start_token_id=2, **more)
        beam(f"sound_prompt_{i}", m, decoder_input_ids=np.array([[5, 2], [5, 3]], np.int32), **more)


def bits(i, seed):
    """The generator of ir/README.md: 64 random bits of place i."""
    m = 2 ** 64 - 1

    def finish(x):
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & m
        x = (x ^ x >> 27) * 0x94d049bb133111eb & m
        return x ^ x >> 31
    start = finish(int(np.float64(seed).view(np.uint64)) + 1 & m)
    return finish(i * 0x9e3779b97f4a7c15 + start & m)


def sampled(model, ids, length, seed, top_p, custom=0, keep=0):
    """Sampling by its documentation, the decoder's steps by onnxruntime: the sequences, the last filtered logits."""
    dec = onnx.helper.make_model(model.graph(), ir_version=8, opset_imports=[helper.make_opsetid("", 18)])
    run = ort.InferenceSession(dec.SerializeToString()).run
    rows, n = ids.shape
    mask = (ids != PAD).astype(np.int32)
    pos = np.where(mask, mask.cumsum(1) - 1, 0).astype(np.int32)
    feed = {"input_ids": ids, "position_ids": pos, "attention_mask": mask}
    past = [np.zeros((2, rows, H, 0, D), np.float32) for _ in model.w]
    seq, done = np.full((rows, length), PAD, np.int32), np.zeros(rows, bool)
    seq[:, :n] = ids
    for step in range(length - n):
        logits, *past = run(None, {**feed, **{f"past_{i}": p for i, p in enumerate(past)}})
        x = logits[:, -1].copy()
        order = np.argsort(-x if custom else x, axis=1, kind="stable")
        p = np.exp(np.take_along_axis(x, order, 1) - x.max(1, keepdims=True))
        sums = np.cumsum(p / p.sum(1, keepdims=True), 1)
        out = np.roll(sums, 1, 1) > top_p if custom else sums <= 1 - top_p
        if custom:
            out[:, 0] = False
        else:
            out[:, max(1, V - keep):] = False
        for b in range(rows):
            x[b, order[b, out[b]]] = -1e20
            odds = np.cumsum(np.exp(x[b].astype(np.float64) - x[b].max()))
            u = (bits(step * rows + b, seed) >> 11) / 2 ** 53
            token = min(int((odds <= u * odds[-1]).sum()), V - 1)
            done[b] |= token == EOS
            seq[b, n + step] = PAD if done[b] else token
        feed = {"input_ids": seq[:, n + step:n + step + 1], "position_ids": (mask[:, :n].sum(1) + step).astype(np.int32)[:, None],
                "attention_mask": np.concatenate([feed["attention_mask"], np.ones((rows, 1), np.int32)], 1)}
        if done.all():
            break
    return seq, x


def draws():
    """onnxruntime draws otherwise; where only one token is left, it draws the same."""
    m = Gpt(2, sharp=3)
    presence = (rng.rand(3, V) > .5).astype(np.int32)
    for name, kw in (("least", dict(top_p=1e-6)), ("hot", dict(top_p=1e-6, temperature=.3)), ("custom", dict(top_p=1e-6, custom=1)),
                     ("repeat", dict(top_p=1e-6, repetition_penalty=one(1.4, np.float32), seed=one(5), min_length=one(7))),
                     ("ngram", dict(top_p=1e-6, no_repeat_ngram_size=2)), ("filter", dict(top_p=1e-6, filter_value=-1e9)),
                     ("presence", dict(top_p=1e-6, presence_mask=presence, presence_penalty=.7))):
        greedy(name, m, op="Sampling", **kw)
    m = Gpt(1, sharp=.7)
    for name, kw in (("some", dict(top_p=.8)), ("some_custom", dict(top_p=.7, custom=1)), ("kept", dict(top_p=.2, min_tokens_to_keep=4))):
        for seed in (1, 9):
            got = sampled(m, IDS, 10, seed, kw["top_p"], kw.get("custom", 0), kw.get("min_tokens_to_keep", 0))
            greedy(f"{name}_{seed}", m, op="Sampling", outs=("sequences", "filtered_logits"), seed=one(seed),
                   want=lambda i, _: got[i], **kw)


for make in (decoders, encoders, sounds, draws):
    make()
for r in refused:
    print(r)
