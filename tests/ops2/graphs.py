"""Graphs around sequences, optionals, strings, maps and hard arguments, with onnxruntime's results, or
the text's where onnxruntime differs or has no such operator. usage: graphs.py OUT"""
import os
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper, parser

ort.set_default_logger_severity(4)
out = sys.argv[1]
rng = np.random.RandomState(7)


def f(*s):
    return rng.randn(*s).astype(np.float32)


def i64(*v):
    return np.array(v, np.int64)


def s(*v):
    return np.array(v, object)


def tensor(a, name=""):
    a = np.asarray(a)
    if a.dtype.kind in "OU":
        return helper.make_tensor(name, onnx.TensorProto.STRING, a.shape, [str(x).encode() for x in a.ravel()])
    return numpy_helper.from_array(a, name)


def proto(v):
    if isinstance(v, list):
        if v and isinstance(v[0], dict):
            return onnx.helper.make_sequence("", onnx.SequenceProto.MAP, [proto(x) for x in v])
        return numpy_helper.from_list([np.asarray(x) for x in v]) if not v or np.asarray(v[0]).dtype.kind not in "OU" \
            else helper.make_sequence("", onnx.SequenceProto.TENSOR, [tensor(x) for x in v])
    if isinstance(v, dict):
        m = onnx.MapProto()
        keys = list(v)
        if isinstance(keys[0], str):
            m.key_type = onnx.TensorProto.STRING
            m.string_keys.extend(k.encode() for k in keys)
        else:
            m.key_type = onnx.TensorProto.INT64
            m.keys.extend(keys)
        m.values.CopyFrom(helper.make_sequence("", onnx.SequenceProto.TENSOR, [tensor(np.asarray(x)) for x in v.values()]))
        return m
    if isinstance(v, Optional):
        kind = onnx.OptionalProto.UNDEFINED if v.v is None else onnx.OptionalProto.TENSOR
        return helper.make_optional("", kind, None if v.v is None else tensor(v.v))
    return tensor(v)


class Optional:
    def __init__(self, v):
        self.v = v


def case(name, text, ins, want=None, opset=18, domains=(), ir=10, graph=None):
    """text: a graph in ONNX's text form; ins: values in order; want: the results, None: onnxruntime's."""
    if graph:
        model = helper.make_model(graph, ir_version=ir, opset_imports=[
            helper.make_opsetid(d, v) for d, v in [("", opset), *domains]])
    else:
        ops = ", ".join([f'"" : {opset}'] + [f'"{d}" : {v}' for d, v in domains])
        model = parser.parse_model(f"<ir_version: {ir}, opset_import: [{ops}]>\n{text}")
    if want is None:
        names = [i.name for i in model.graph.input]
        feed = {n: v.v if isinstance(v, Optional) else v for n, v in zip(names, ins)}
        want = ort.InferenceSession(model.SerializeToString()).run(None, feed)
    data = f"{out}/{name}/test_data_set_0"
    os.makedirs(data)
    onnx.save(model, f"{out}/{name}/model.onnx")
    for kind, values in (("input", ins), ("output", want)):
        for i, v in enumerate(values):
            with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                file.write(proto(v).SerializeToString())


def sequences():
    x = f(5, 7)
    case("seq_strided_view", """g (float[N,7] x) => (float[M,K,7] y) {
        n = Shape <start = 0, end = 1> (x)
        k = Constant <value_int = 2> ()
        k1 = Constant <value_ints = [2]> ()
        trip = Sub(n, k1)
        one = Constant <value_ints = [1]> ()
        trips = Add(trip, one)
        count = Squeeze(trips)
        go = Constant <value = bool {1}> ()
        zero = Constant <value_ints = [0]> ()
        none = SequenceEmpty ()
        all = Loop (count, go, none) <body = b (int64 i, bool c, seq(float[?,7]) acc) => (bool c2, seq(float[?,7]) acc2) {
            c2 = Identity(c)
            at = Unsqueeze(i, zero)
            end = Add(at, k1)
            part = Slice(x, at, end, zero)
            acc2 = SequenceInsert(acc, part)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }""", [x])
    case("seq_stacked", """g (float[N,7] x, int64[K] at, int64 n) => (float[7,K] y, seq(float[7]) all, float[N,7] last) {
        go = Constant <value = bool {1}> ()
        none = SequenceEmpty ()
        last, all = Loop (n, go, x, none) <body = b (int64 i, bool c, float[N,7] old, seq(float[7]) acc)
                => (bool c2, float[N,7] new, seq(float[7]) acc2) {
            c2 = Identity(c)
            k = Gather(at, i)
            row = Gather(old, k)
            acc2 = SequenceInsert(acc, row)
            new = Add(old, row)
        }>
        y = ConcatFromSequence <axis = -1, new_axis = 1> (all)
    }""", [f(5, 7), i64(2, 0, 4, 4), i64(4).reshape(())])
    case("loop_swaps_sizes", """g (float[N] a, float[M] b, int64 n) => (float[?] x, float[?] y) {
        go = Constant <value = bool {1}> ()
        x, y = Loop (n, go, a, b) <body = b (int64 i, bool c, float[?] p, float[?] q) => (bool c2, float[?] q2, float[?] p2) {
            c2 = Identity(c)
            one = Constant <value_float = 1.0> ()
            q2 = Add(q, one)
            p2 = Mul(p, p)
        }>
    }""", [f(6), f(2), i64(3).reshape(())])
    case("loop_size_from_run", """g (float[N] a, int64[1] k, int64 n) => (float[?] x, float[?] y) {
        go = Constant <value = bool {1}> ()
        t, at = TopK(a, k)
        x, y = Loop (n, go, t, a) <body = b (int64 i, bool c, float[?] p, float[?] q) => (bool c2, float[?] p2, float[?] q2) {
            c2 = Identity(c)
            p2 = Add(p, p)
            q2 = Concat <axis = 0> (q, p)
        }>
    }""", [f(6), i64(2), i64(3).reshape(())])
    case("seq_grow", """g (float[N] x, int64 n) => (seq(float[?]) all, float[?] y, int64 len) {
        go = Constant <value = bool {1}> ()
        one = Constant <value_ints = [1]> ()
        zero = Constant <value_ints = [0]> ()
        none = SequenceEmpty ()
        all = Loop (n, go, none) <body = b (int64 i, bool c, seq(float[?]) acc) => (bool c2, seq(float[?]) acc2) {
            c2 = Identity(c)
            at = Unsqueeze(i, zero)
            end = Add(at, one)
            part = Slice(x, zero, end, zero)
            acc2 = SequenceInsert(acc, part)
        }>
        y = ConcatFromSequence <axis = 0> (all)
        len = SequenceLength(all)
    }""", [f(6), i64(4).reshape(())])
    case("seq_runtime_positions", """g (float[2,3] a, float[2,3] b, float[2,3] c, int64 i, int64 j, int64 k)
            => (seq(float[2,3]) s, float[2,3] y, float[2,3] z) {
        t = SequenceConstruct(a, b)
        u = SequenceInsert(t, c, i)
        s = SequenceErase(u, j)
        y = SequenceAt(s, k)
        z = SequenceAt(t, k)
    }""", [f(2, 3), f(2, 3), f(2, 3), i64(1).reshape(()), i64(-3).reshape(()), i64(-2).reshape(())])
    case("seq_split_runtime", """g (float[3,8] x, int64 n, int64[K] parts) => (seq(float[3,?]) s, float[?,?] y, seq(float[?,8]) t) {
        s = SplitToSequence <axis = 1> (x, n)
        y = ConcatFromSequence <axis = -1> (s)
        t = SplitToSequence <axis = 0> (x, parts)
    }""", [f(3, 8), i64(3).reshape(()), i64(1, 2)])
    whole = f(3, 8)
    case("seq_split_huge", """g (float[3,8] x) => (float[3,8] y, int64 n) {
        size = Constant <value_int = 9223372036854775807> ()
        s = SplitToSequence <axis = 1> (x, size)
        y = ConcatFromSequence <axis = 1> (s)
        n = SequenceLength(s)
    }""", [whole], [whole, i64(1).reshape(())])
    case("seq_of_many", """g (float[N,3] x, int64 i) => (seq(float[3]) s, float[3] y, float[3,N] z, int64 n) {
        s = SplitToSequence <axis = 0, keepdims = 0> (x)
        y = SequenceAt(s, i)
        z = ConcatFromSequence <axis = 1, new_axis = 1> (s)
        n = SequenceLength(s)
    }""", [f(70, 3), i64(-2).reshape(())])
    case("seq_if", """g (bool c, float[2] a, float[3] b) => (float[?] y, int64 n) {
        s = If (c) <then_branch = t () => (seq(float[?]) r) { r = SequenceConstruct(a, b) },
                    else_branch = e () => (seq(float[?]) q) { q = SequenceConstruct(b) }>
        n = SequenceLength(s)
        y = ConcatFromSequence <axis = 0> (s)
    }""", [np.array(True), f(2), f(3)])
    case("seq_if_same", """g (bool c, float[2] a, float[3] b) => (float[?] y, float[?] z) {
        s = If (c) <then_branch = t () => (seq(float[?]) r) { r = SequenceConstruct(a, b) },
                    else_branch = e () => (seq(float[?]) q) { q = SequenceConstruct(b, a) }>
        i = Constant <value_int = 0> ()
        y = SequenceAt(s, i)
        z = ConcatFromSequence <axis = 0> (s)
    }""", [np.array(False), f(2), f(3)])
    case("seq_strings", """g (string[2] a, string[3] b, int64 i) => (seq(string[?]) s, string[?] y, string[5] z) {
        s = SequenceConstruct(a, b)
        y = SequenceAt(s, i)
        z = ConcatFromSequence <axis = 0> (s)
    }""", [s("one", "two"), s("", "drei", "vier"), i64(1).reshape(())])
    case("seq_swapped", """g (int64 n, float[2] a, float[2] b) => (seq(float[2]) s, seq(float[2]) t) {
        go = Constant <value = bool {1}> ()
        p = SequenceConstruct(a)
        q = SequenceConstruct(b, b)
        s, t = Loop (n, go, p, q) <body = b (int64 i, bool c, seq(float[2]) u, seq(float[2]) v)
                => (bool c2, seq(float[2]) v2, seq(float[2]) u2) {
            c2 = Identity(c)
            v2 = Identity(v)
            u2 = Identity(u)
        }>
    }""", [i64(3).reshape(()), f(2), f(2)])
    case("opt_values", """g (optional(float[3]) x) => (float[3] y) {
        has = OptionalHasElement(x)
        y = If (has) <then_branch = t () => (float[3] r) { v = OptionalGetElement(x) r = Neg(v) },
                      else_branch = e () => (float[3] q) { q = Constant <value = float[3] {1, 2, 3}> () }>
    }""", [Optional(f(3))])


def strings():
    words = s("ab", "", "ab", "Zürich straße", "x  y\tz ", "ab,cd,,e")
    case("str_moves", """g (string[6] x, int64[K] at, bool[6] c) => (string[2,3] r, string[3,2] t, string[K] g, string[9] cat,
            string[?] some, string[2,6] tile, string[6] w, string[4] sl, string[3,6] e, string[6] id) {
        shape = Constant <value_ints = [2, 3]> ()
        r = Reshape(x, shape)
        t = Transpose(r)
        g = Gather(x, at)
        three = Constant <value_ints = [3]> ()
        zero = Constant <value_ints = [0]> ()
        head = Slice(x, zero, three)
        cat = Concat <axis = 0> (head, x)
        some = Compress <axis = 0> (x, c)
        two = Constant <value_ints = [2, 1]> ()
        flat = Unsqueeze(x, zero)
        tile = Tile(flat, two)
        one = Constant <value = string {"one"}> ()
        w = Where(c, x, one)
        four = Constant <value_ints = [4]> ()
        sl = Slice(x, m1, m5, zero, m1)
        es = Constant <value_ints = [3, 6]> ()
        e = Expand(x, es)
        id = Identity(x)
    }""".replace("e = Expand(x, es)", """e = Expand(x, es)
        m1 = Constant <value_ints = [-1]> ()
        m5 = Constant <value_ints = [-5]> ()"""), [words, i64(-1, 0, 2), np.array([1, 0, 0, 1, 1, 0], bool)])
    case("str_concat", """g (string[2,1] a, string[1,3] b, string[3] c) => (string[2,3] y, string[2,3] z) {
        y = StringConcat(a, b)
        z = StringConcat(y, c)
    }""", [s("a", "").reshape(2, 1), s("x", "y", "").reshape(1, 3), s("1", "2", "3")], opset=20)
    case("str_equal_broadcast", """g (string[2,1] a, string[1,3] b) => (bool[2,3] y) { y = Equal(a, b) }""",
         [s("a", "b").reshape(2, 1), s("a", "b", "c").reshape(1, 3)], [np.array([[1, 0, 0], [0, 1, 0]], bool)], opset=19)
    for n, kw, want in (
            ("space", "", [p.split() for p in words]),
            ("most", "<maxsplit = 1>", [p.split(None, 1) for p in words]),
            ("comma", '<delimiter = ","', [p.split(",") for p in words]),
            ("comma_most", '<delimiter = ",", maxsplit = 2', [p.split(",", 2) for p in words])):
        kw += ">" if kw and kw[-1] != ">" else ""
        width = max(map(len, want))
        case("str_split_" + n, f"g (string[6] x) => (string[6,?] y, int64[6] n) {{ y, n = StringSplit {kw} (x) }}", [words],
             [np.array([p + [""] * (width - len(p)) for p in want], object), i64(*map(len, want))], opset=20)
    case("str_normalize", """g (string[1,6] x) => (string[1,?] y) {
        y = StringNormalizer <case_change_action = "UPPER", is_case_sensitive = 0, stopwords = ["AB"]> (x)
    }""", [words.reshape(1, 6)], [s(*[w.upper() for w in words if w != "ab"]).reshape(1, 4)])
    case("str_normalize_turkish", """g (string[2] x) => (string[?] y) {
        y = StringNormalizer <case_change_action = "UPPER", locale = "tr_TR"> (x)
    }""", [s("istanbul", "ışık")], [s("İSTANBUL", "IŞIK")])
    case("str_regex", """g (string[6] x) => (bool[6] a, bool[6] b) {
        a = RegexFullMatch <pattern = "[a-z]*"> (x)
        b = RegexFullMatch <pattern = "(a|ab)(,?\\\\w*)*"> (x)
    }""".replace("\\\\\\\\", "\\\\"), [words], [np.array([1, 1, 1, 0, 0, 0], bool), np.array([1, 0, 1, 0, 0, 1], bool)], opset=20)
    case("str_casts", """g (string[5] x, float[4] f, int64[2] i, double[2] d) => (float[5] a, double[5] b, int64[2] n, string[4] fs,
            string[2] is, string[2] ds, float16[5] h, int32[2] k) {
        a = Cast <to = 1> (x)
        b = Cast <to = 11> (x)
        is = Cast <to = 8> (i)
        n = Cast <to = 7> (is)
        fs = Cast <to = 8> (f)
        ds = Cast <to = 8> (d)
        h = Cast <to = 10> (x)
        k = Cast <to = 6> (is)
    }""", [s("1.5", "-2e3", "INF", "-INF", "0.1"), np.array([1, 0.1, 1e20, -3.25], np.float32), i64(7, -9),
           np.array([0.1, 1e-7])],
         [np.array([1.5, -2e3, np.inf, -np.inf, 0.1], np.float32), np.array([1.5, -2e3, np.inf, -np.inf, 0.1]), i64(7, -9),
          s("1.0", "0.1", "1e+20", "-3.25"), s("7", "-9"), s("0.1", "1e-07"),
          np.array([1.5, -2e3, np.inf, -np.inf, 0.1], np.float16), np.array([7, -9], np.int32)])
    for mode in ("TF", "IDF", "TFIDF"):
        case("str_tfidf_" + mode, f"""g (string[2,8] x) => (float[2,7] y) {{
            y = TfIdfVectorizer <mode = "{mode}", min_gram_length = 1, max_gram_length = 3, max_skip_count = 2,
                ngram_counts = [0, 3, 9], ngram_indexes = [0, 1, 2, 3, 4, 5, 6], weights = [1.0, 2.0, 3.0, 4.0, 0.5, 0.25, 7.0],
                pool_strings = ["a", "b", "c", "a", "b", "b", "c", "c", "a", "a", "b", "c"]> (x)
        }}""", [np.array([list("abcabcab"), list("cxbaaacb")], object)])
    case("int_tfidf", """g (int32[9] x) => (float[5] y) {
        y = TfIdfVectorizer <mode = "TF", min_gram_length = 2, max_gram_length = 2, max_skip_count = 1,
            ngram_counts = [0, 2], ngram_indexes = [0, 1, 4, 2], pool_int64s = [5, 7, 5, 7, 7, 5]> (x)
    }""".replace("[0, 1, 4, 2]", "[0, 1, 4, 2]"), [np.array([5, 7, 7, 5, 5, 7, 1, 5, 7], np.int32)])
    ms = [("com.microsoft", 1)]
    for n, kw in (("chars", 'separators = [""], mark = 0'), ("chars_marked", 'separators = [""], mark = 1'),
                  ("by_space", 'separators = [" ", ","], mark = 1'), ("by_class", 'separators = ["[,\\\\s]+"], mark = 0'),
                  ("exp", 'tokenexp = "[a-z]+", mark = 1'), ("exp_long", 'tokenexp = "a|ab|cd", mark = 0')):
        least = 2 if "by" in n else 1
        case("tokenizer_" + n, f"""g (string[6] x) => (string[6,?] y) {{
            y = com.microsoft.Tokenizer <mincharnum = {least}, pad_value = "#", {kw}> (x)
        }}""", [words], domains=ms)
    case("text_pipeline", """g (string[n,1] x) => (float[n,4] y) {
        flat = Constant <value_ints = [-1]> ()
        lines = Reshape (x, flat)
        words = com.microsoft.Tokenizer <mincharnum = 2, pad_value = "#", tokenexp = "[a-z]+", mark = 0> (lines)
        counts = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0,
            ngram_counts = [0], ngram_indexes = [0, 1, 2], pool_strings = ["cat", "dog", "the"]> (words)
        w = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 0.25, 2.0, 7.0, 1.0, 3.0, 0.0]> ()
        shape = Constant <value_ints = [3, 4]> ()
        m = Reshape (w, shape)
        y = MatMul (counts, m)
    }""", [np.array([["the cat and the dog"], ["a dog"], ["nothing here"]], object)], domains=ms)
    case("str_loop", """g (int64 n, string[2] x) => (string[2] y, string[?,2] all) {
        go = Constant <value = bool {1}> ()
        y, all = Loop (n, go, x) <body = b (int64 i, bool c, string[2] v) => (bool c2, string[2] v2, string[2] s) {
            c2 = Identity(c)
            at = Constant <value_ints = [1, 0]> ()
            v2 = Gather(v, at)
            s = Identity(v)
        }>
    }""", [i64(3).reshape(()), s("p", "q")])
    case("str_if", """g (bool c, string[2] x, string[3] z) => (string[?] y) {
        y = If (c) <then_branch = t () => (string[?] a) { a = Identity(x) }, else_branch = e () => (string[?] b) { b = Identity(z) }>
    }""", [np.array(False), s("p", "q"), s("u", "v", "w")])


def moved_strings():
    """Every operator that moves elements moves strings."""
    def a(v):
        return np.array(v, object)

    x = s("a", "b", "c", "d", "e", "f").reshape(2, 3)
    t = case
    t("moved_gathernd", '''g (string[2,3] x, int64[2,2] i)
        => (string[2] y) { y = GatherND(x, i) }''',
      [x,i64(0,1,1,2).reshape(2,2)],
      [s("b","f")])
    t("moved_gatherel", '''g (string[2,3] x, int64[1,3] i)
        => (string[1,3] y) { y = GatherElements<axis=0>(x, i) }''',
      [x,i64(0,1,1).reshape(1,3)],
      [a([["a","e","f"]])])
    t("moved_scatterel", '''g (string[2,3] x, int64[1,2] i, string[1,2] u)
        => (string[2,3] y) { y = ScatterElements<axis=1>(x, i, u) }''',
      [x,i64(2,0).reshape(1,2),a([["p","q"]])],
      [a([["q","b","p"],
      ["d","e","f"]])])
    t("moved_scatternd", '''g (string[2,3] x, int64[1,1] i, string[1,3] u)
        => (string[2,3] y) { y = ScatterND(x, i, u) }''',
      [x,i64(1).reshape(1,1),a([["p","q","r"]])],
      [a([["a","b","c"],
      ["p","q","r"]])])
    t("moved_pad", '''g (string[2,3] x, int64[4] p, string v)
        => (string[3,3] y) { y = Pad(x, p, v) }''',
      [x,i64(1,0,0,0),np.array("z",object)],
      [a([["z","z","z"],
      ["a","b","c"],
      ["d","e","f"]])])
    t("moved_padedge", '''g (string[2,3] x, int64[4] p)
        => (string[2,4] y) { y = Pad<mode="edge">(x, p) }''',
      [x,i64(0,1,0,0)],
      [a([["a","a","b","c"],
      ["d","d","e","f"]])])
    t("moved_revseq", '''g (string[2,3] x, int64[2] n)
        => (string[2,3] y) { y = ReverseSequence<batch_axis=0,time_axis=1>(x, n) }''',
      [x,i64(2,3)],
      [a([["b","a","c"],
      ["f","e","d"]])])
    t("moved_unique", '''g (string[5] x)
        => (string[3] y, int64[3] i, int64[5] r, int64[3] c) { y,i,r,c = Unique(x) }''',
      [s("b","a","b","c","a")],
      [s("a","b","c"),i64(1,0,3),i64(1,0,1,2,0),i64(2,2,1)])
    t("moved_onehot", '''g (int64[3] x, int64 d, string[2] v)
        => (string[3,3] y) { y = OneHot(x,d,v) }''',
      [i64(0,2,1),i64(3).reshape(()),s("-","+")],
      [a([["+","-","-"],
      ["-","-","+"],
      ["-","+","-"]])])
    t("moved_split", '''g (string[2,3] x)
        => (string[1,3] y, string[1,3] z) { y,z = Split<num_outputs=2>(x) }''',
      [x],
      [x[:1],x[1:]])
    t("moved_shape", '''g (string[2,3] x)
        => (int64[2] y, int64 z) { y=Shape(x) z=Size(x) }''',
      [x],
      [i64(2,3),i64(6).reshape(())])
    t("moved_flatten", '''g (string[2,3] x)
        => (string[1,6] y) { y=Flatten<axis=0>(x) }''',
      [x],
      [x.reshape(1,6)])
    t("moved_d2s", '''g (string[1,4,1,1] x)
        => (string[1,1,2,2] y) { y=DepthToSpace<blocksize=2>(x) }''',
      [s("a","b","c","d").reshape(1,4,1,1)],
      [s("a","b","c","d").reshape(1,1,2,2)])
    t("moved_afe", '''g (string[2,3] x, int64[2] i)
        => (string[2,2] y) { y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }''',
      [x,i64(2,0)],
      [a([["c","a"],
      ["f","d"]])],domains=[("ai.onnx.ml",3)])
    t("moved_centercrop", '''g (string[4] x, int64[1] n)
        => (string[2] y) { y = CenterCropPad(x, n) }''',
      [s("a","b","c","d"),i64(2)],
      [s("b","c")])
    t("moved_scan", '''g (string[2,3] x)
        => (string[2,3] y) { y = Scan<num_scan_inputs=1, body = b (string[3] e) => (string[3] o) { o = Identity(e) }>(x) }''',
      [x],
      [x])
    t("moved_nonzero_str", '''g (string[2,3] x)
        => (string[6] y) { m = Constant<value_ints=[-1]>() y = Reshape(x, m) }''',
      [x],
      [x.reshape(6)])
    t("moved_gather_dyn", '''g (string[N] x, int64[M] i)
        => (string[M] y) { y = Gather(x,i) }''',
      [s("a","b"),i64(-1,0,1)],
      [s("b","a","b")])
    t("moved_sparse_cast", '''g (bool[2] x, uint64[2] u, int8[2] i, float16[2] h)
        => (string[2] a, string[2] b, string[2] c, string[2] d) { a=Cast<to=8>(x) b=Cast<to=8>(u) c=Cast<to=8>(i) d=Cast<to=8>(h)}''',
      [np.array([True,False]),np.array([2**64-1,0],np.uint64),np.array([-5,7],np.int8),np.array([0.5,65504],np.float16)],
      [s("True","False"),s("18446744073709551615","0"),s("-5","7"),s("0.5","65504.0")])


def maps():
    ml = [("ai.onnx.ml", 3)]
    D, F, I, S = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING

    def one(name, op, key, value, given, out, want=None, **attrs):
        t = onnx.TypeProto()
        t.map_type.key_type = key
        t.map_type.value_type.tensor_type.elem_type = value
        g = helper.make_graph([helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attrs)], "g",
                              [helper.make_value_info("x", t)], [helper.make_tensor_value_info("y", out, [1, None])])
        case(name, None, [given], want, domains=ml, graph=g)

    one("map_dict_words", "DictVectorizer", S, F, {"a": np.float32(4), "c": np.float32(8)}, F,
        string_vocabulary=["a", "c", "b", "z"])
    one("map_dict_doubles", "DictVectorizer", I, D, {7: 0.5, -3: 1.5, 9: 2.5}, D,
        [np.array([[2.5, 0, 1.5, 0.5]])], int64_vocabulary=[9, 1, -3, 7])
    one("map_dict_counts", "DictVectorizer", S, I, {"u": np.int64(3)}, I, [i64(0, 3).reshape(1, 2)], string_vocabulary=["v", "u"])
    one("map_dense", "CastMap", I, F, {5: np.float32(1.5), 1: np.float32(2.5), 3: np.float32(-1)}, F)
    one("map_sparse", "CastMap", I, F, {5: np.float32(1.5), 1: np.float32(2.5)}, F, map_form="SPARSE", max_map=7)
    one("map_ints", "CastMap", I, F, {5: np.float32(1.5), 1: np.float32(-2.5)}, I, [i64(-2, 1).reshape(1, 2)],
        cast_to="TO_INT64")


def scan8():
    for n, lens, back in (("all", '""', 0), ("lens", "n", 0), ("back", "n", 1)):
        count = ", int64[2] n" if lens == "n" else ""
        text = f"""g (float[2,3] s, float[2,4,3] x, float[2,4,3] w{count}) => (float[2,3] y, float[2,4,3] z) {{
            y, z = Scan <num_scan_inputs = 2, directions = [{back}, 0], body = b (float[3] a, float[3] p, float[3] q)
                    => (float[3] a2, float[3] r) {{
                t = Mul(p, q)
                a2 = Add(a, t)
                r = Identity(a2)
            }}> ({"n" if count else ""}, s, x, w)
        }}"""
        if not count:
            text = text.replace("> (, s", '> (none, s')
        ins = [f(2, 3), f(2, 4, 3), f(2, 4, 3)] + ([i64(3, 2)] if count else [])
        s0, x, w = ins[:3]
        y, z = s0.copy(), np.zeros((2, 4, 3), np.float32)
        for b in range(2):
            k = ins[3][b] if count else 4
            for t in range(k):
                y[b] += (x[b, :k][::-1] if back else x[b])[t] * w[b, t]
                z[b, t] = y[b]
        m = parser.parse_model(f'<ir_version: 4, opset_import: ["" : 8]>\n{text}')
        if not count:
            m.graph.node[0].input[0] = ""
        case("scan8_" + n, None, ins, [y, z], opset=8, ir=4, graph=m.graph)


def ranks():
    for n, k in (("one", 1), ("three", 3)):
        case("if_rank_" + n, """g (float[2,K] x) => (int64[R] shape, float total, float[?] flat) {
            one = Constant <value_ints = [1]> ()
            m1 = Constant <value_ints = [-1]> ()
            s = Shape <start = 1> (x)
            c = Equal(s, one)
            r = If (c) <then_branch = t () => (float[?] a) { a = Squeeze(x, one) },
                        else_branch = e () => (float[?,?] b) { b = Identity(x) }>
            shape = Shape(r)
            total = ReduceSum <keepdims = 0> (r)
            flat = Reshape(r, m1)
        }""", [f(2, k)])
        # within a branch that is known: the rest of the graph around it is made twice
        case("if_rank_inner_" + n, """g (float[4] x, int64 k) => (float[4] y) {
            yes = Constant <value = bool {1}> ()
            lim = Constant <value = int64 {2}> ()
            r = If (yes) <then_branch = t () => (float[?] a) {
                    c = Less(k, lim)
                    a = If (c) <then_branch = u () => (float p) { p = ReduceMax <keepdims = 0> (x) },
                                else_branch = v () => (float[1] q) { q = ReduceMin <keepdims = 1> (x) }>
                }, else_branch = e () => (float[?] b) { b = Identity(x) }>
            y = Mul(x, r)
        }""", [f(4), i64(k).reshape(())])


def versions():
    """Older and newer versions that the official tests pass by."""
    x, n = f(3), i64(4).reshape(())
    for v in (1, 19, 21, 23, 24):
        case(f"loop_{v}", """g (int64 n, float[3] x) => (float[3] y, float[N,3] all) {
            go = Constant <value = bool {1}> ()
            y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[3] a) => (bool c2, float[3] a2, float[3] r) {
                c2 = Identity(c)
                a2 = Add(a, x)
                r = Neg(a2)
            }>
        }""", [n, x], [x * 5, np.stack([x * np.float32(-k) for k in range(2, 6)])], opset=max(v, 7) if v > 1 else 8, ir=4 if v < 19 else 10)
    case("if_25", """g (bool c, float[3] x) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] r) { r = Neg(x) }, else_branch = e () => (float[3] q) { q = Abs(x) }>
    }""", [np.array(False), x], [np.abs(x)], opset=25)
    case("optional_28", """g (float[3] x) => (optional(float[3]) y, bool has, float[3] z) {
        y = Optional(x)
        has = OptionalHasElement(y)
        z = OptionalGetElement(y)
    }""", [x], [Optional(x), np.array(True), x], opset=28, ir=13)
    sure = np.array([0, 1, 1, 0], np.float32)
    for v in (15, 22):
        case(f"bernoulli_{v}", "g (float[4] x) => (bool[4] y) { y = Bernoulli <dtype = 9> (x) }", [sure], [sure > 0], opset=v)
    scores = f(2, 3)
    g = parser.parse_graph("""g (float[2,3] x) => (int64[1] y) { y = Constant <value_ints = [1]> () }""")
    del g.node[:], g.output[:]
    g.node.append(helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[4, 9, 2]))
    t = onnx.TypeProto()
    m = t.sequence_type.elem_type.map_type
    m.key_type = onnx.TensorProto.INT64
    m.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    g.output.append(helper.make_value_info("y", t))
    case("zipmap", None, [scores], [[dict(zip((4, 9, 2), row)) for row in scores]], domains=[("ai.onnx.ml", 1)], graph=g)


def trigonometry():
    """Arguments so large that the reduction needs hundreds of bits of pi, and neighbours of its multiples."""
    for name, t in (("float", np.float32), ("double", np.float64)):
        huge = np.exp(np.linspace(np.log(5e6), np.log(np.finfo(t).max) - 1, 90))
        near = np.arange(1, 2000, 37) ** 4 * (np.pi / 2)
        x = np.concatenate([huge, -huge, near, [np.inf, -np.inf, np.nan, 0, -0., 0.5]]).astype(t)
        case(f"trig_{name}", f"""g ({name}[N] x) => ({name}[N] s, {name}[N] c, {name}[N] t) {{
            s = Sin(x)
            c = Cos(x)
            t = Tan(x)
        }}""", [x], [op(x.astype(np.float64)).astype(t) for op in (np.sin, np.cos, np.tan)])


def affine():
    """AffineGrid in half types rounds where the function's body does."""
    for name, t in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        for corners in (0, 1):
            theta, places = f(2, 2, 3).astype(t), []
            for n in (5, 7):
                step = t(t(2) / t(n - corners))
                start = t(-1) if corners else t(t(-1) + t(step / t(2)))
                places.append(np.array([t(start + t(t(k) * step)) for k in range(n)], np.float32))
            y, x = np.meshgrid(*places, indexing="ij")
            grid = np.stack([x, y, np.ones_like(x)], -1).reshape(-1, 3)
            want = (theta.astype(np.float32) @ grid.T).transpose(0, 2, 1).reshape(2, 5, 7, 2).astype(t)
            case(f"affine_{name}_{corners}", f"""g ({name}[2,2,3] theta, int64[4] size) => ({name}[N,H,W,2] y) {{
                y = AffineGrid <align_corners = {corners}> (theta, size)
            }}""", [theta, i64(2, 3, 5, 7)], [want], opset=20)


os.makedirs(out)
np.seterr(invalid="ignore")
for part in sys.argv[2:] or ["sequences", "strings", "moved_strings", "maps", "scan8", "ranks", "versions", "trigonometry", "affine"]:
    globals()[part]()
