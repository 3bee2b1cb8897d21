"""Single-node models with onnxruntime's results, for operators and options that the official tests
leave out. usage: oracle.py OUT"""
import numpy as np
from single import F, ML, MS, T, case, f, helper, i8, report, rng, scalar, u8


def windows():
    x1, x2, x3 = f(2, 4, 11), f(1, 4, 9, 10), f(1, 2, 6, 5, 7)
    n = 0
    for rank, x in ((1, x1), (2, x2), (3, x3)):
        for k, s, d in ((1, 1, 1), (3, 1, 1), (3, 2, 1), (2, 2, 1), (2, 3, 1), (2, 1, 2), (2, 2, 2)):
            for how in ({}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}, {"auto_pad": "VALID"},
                        {"pads": [1] * rank + [0] * rank}, {"pads": [0] * rank + [1] * rank}):
                if "pads" in how and k == 1:
                    continue
                if d > 1 and how.get("auto_pad", "").startswith("SAME"):
                    continue  # it does not give ceil(in / stride)
                n += 1
                if rank == 3 and n % 3:
                    continue
                w = {"strides": [s] * rank, "dilations": [d] * rank, **how}
                group = (1, 2)[n % 2]
                cin = x.shape[1]
                case(f"conv_{n}", "Conv", [x, f(4, cin // group, *[k] * rank), f(4) if n % 3 else None], [F], group=group, **w)
                kw = dict(kernel_shape=[k] * rank, **w)
                ceil = n % 2
                if "auto_pad" in how:
                    ceil = 0
                case(f"maxpool_{n}", "MaxPool", [x], [F, T.INT64], ceil_mode=ceil, storage_order=n % 3 == 0, **kw)
                case(f"avgpool_{n}", "AveragePool", [x], [F], ceil_mode=ceil, count_include_pad=n % 4 > 1, **kw)
                if d == 1:
                    case(f"lppool_{n}", "LpPool", [x], [F], p=1 + n % 3, kernel_shape=[k] * rank, strides=[s] * rank, **how)
                t = {"strides": [s] * rank, "dilations": [d] * rank}
                extra = [0, 1][n % 2] if max(s, d) > 1 else 0
                if "pads" in how:
                    t["pads"] = how["pads"]
                if how.get("auto_pad", "").startswith("SAME"):
                    t["auto_pad"] = how["auto_pad"]
                if "auto_pad" not in t or k >= s:
                    case(f"convt_{n}", "ConvTranspose", [x, f(cin, 3, *[k] * rank), f(3 * group) if n % 3 else None], [F],
                         group=group, output_padding=[extra] * rank, **t)
    for how in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        case(f"convt_shape_{how}", "ConvTranspose", [x2, f(4, 3, 3, 3)], [F], auto_pad=how, strides=[2, 2], output_shape=[18, 21])
    case("convt_depth", "ConvTranspose", [x2, f(4, 1, 3, 3)], [F], group=4, strides=[2, 2])
    case("conv_depth", "Conv", [x2, f(8, 1, 3, 3)], [F], group=4)
    for p in (1, 2, 3):
        case(f"globallp_{p}", "GlobalLpPool", [x2], [F], p=p)
    rois = np.array([[0, 0, 0, 4, 4], [1, 2, 1, 7, 8], [0, 3, 3, 3, 3]], np.float32)
    case("roipool", "MaxRoiPool", [f(2, 3, 9, 10), rois], [F], pooled_shape=[3, 2])
    case("roipool_scale", "MaxRoiPool", [f(2, 3, 9, 10), rois * np.array([1, 2, 2, 2, 2], np.float32)], [F],
         pooled_shape=[2, 2], spatial_scale=0.5)
    x = u8(1, 4, 7, 7)
    for g in (1, 2):
        for zx, zw in ((None, None), (scalar(3, np.uint8), None), (scalar(3, np.uint8), scalar(5, np.uint8))):
            case(f"convint_{g}_{zx is None}_{zw is None}", "ConvInteger", [x, u8(4, 4 // g, 3, 3), zx, zw], [T.INT32],
                 group=g, pads=[1, 1, 1, 1], strides=[2, 1])
        for per in (0, 1):
            case(f"qconv_{g}_{per}", "QLinearConv", [x, scalar(.02), scalar(7, np.uint8), i8(4, 4 // g, 3, 3),
                 abs(f(4)) * .01 if per else scalar(.01), i8(4) * 0 if per else scalar(0, np.int8), scalar(.3),
                 scalar(100, np.uint8), rng.randint(-500, 500, 4).astype(np.int32)], [T.UINT8], group=g, pads=[1, 0, 1, 0])


def recurrent():
    acts = ["Sigmoid", "Tanh", "Relu", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
            "Softsign", "Softplus"]
    alphas = ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu")
    betas = ("Affine", "ScaledTanh", "HardSigmoid")
    I, H, B, S = 3, 4, 2, 5
    lens = np.array([3, 5], np.int32)
    n = 0
    for op, g, na in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 1)):
        for d in ("forward", "reverse", "bidirectional"):
            for sl in (None, lens):
                for clip in (None, .4):
                    n += 1
                    k = 2 if d == "bidirectional" else 1
                    ins = [f(S, B, I), f(k, g * H, I) * .3, f(k, g * H, H) * .05, f(k, 2 * g * H) if n % 3 else None, sl,
                           f(k, B, H) if n % 2 else None]
                    kw = {}
                    if op == "LSTM":
                        ins += [f(k, B, H) if n % 4 else None, f(k, 3 * H) if n % 5 > 1 else None]
                    if op == "GRU":
                        kw["linear_before_reset"] = n % 2
                    if clip:
                        kw["clip"] = clip
                    if op == "LSTM" and n % 4 == 1:
                        kw["input_forget"] = 1
                    if n % 3 == 0:  # without alphas it takes 0
                        kw["activations"] = [acts[(n + i) % len(acts)] for i in range(na * k)]
                        for name, v, having in (("activation_alpha", .3, alphas), ("activation_beta", .6, betas)):
                            count = sum(a in having for a in kw["activations"])
                            if count:
                                kw[name] = [v] * count
                    outs = [F, F, F] if op == "LSTM" else [F, F]
                    case(f"{op.lower()}_{n}", op, ins, outs, hidden_size=H, direction=d, **kw)
    for i, a in enumerate(acts):
        kw = {}
        if a in alphas:
            kw["activation_alpha"] = [.3]
        if a in betas:
            kw["activation_beta"] = [.6]
        case(f"rnn_act_{a}", "RNN", [f(S, B, I), f(1, H, I), f(1, H, H)], [F, F], hidden_size=H, activations=[a], **kw)
    for d in ("forward", "reverse", "bidirectional"):
        k = 2 if d == "bidirectional" else 1
        for t, gen in (("u8", u8), ("i8", i8)):
            def zero():
                return rng.randint(100, 150, k).astype(np.uint8) if t == "u8" else np.zeros(k, np.int8)
            case(f"qlstm_{d}_{t}", "DynamicQuantizeLSTM", [f(5, 1, 6), gen(k, 6, 4 * H), gen(k, H, 4 * H), f(k, 8 * H), None,
                 f(k, 1, H), f(k, 1, H), None, abs(f(k)) * .01, zero(), abs(f(k)) * .01, zero()], [F, F, F], MS,
                 inits="bcijkl", hidden_size=H, direction=d)


def products():
    for i, (eq, *shapes) in enumerate((("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk", (2, 3, 4), (2, 4, 5)), ("ii->i", (4, 4)),
            ("ii", (4, 4)), ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("ij->ji", (3, 4)), ("i,j->ij", (3,), (4,)),
            ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)), (" i j , j -> i", (3, 4), (4,)), ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)),
            ("ijk->", (2, 3, 4)), ("i...->...", (2, 3, 4)), ("ab,cb->ca", (3, 4), (5, 4)))):
        case(f"einsum_{i}", "Einsum", [f(*s) for s in shapes], [F], equation=eq)
    n = 0
    for ta in (0, 1):
        for tb in (0, 1):
            for c in (None, (), (1,), (5,), (3, 1), (1, 5), (3, 5)):
                n += 1
                case(f"gemm_{n}", "Gemm", [f(*((4, 3) if ta else (3, 4))), f(*((5, 4) if tb else (4, 5))),
                     None if c is None else f(*c) if c else scalar(.7)], [F], transA=ta, transB=tb, alpha=(1., .5)[n % 2],
                     beta=(1., 2., 0.)[n % 3])
    for i, (a, b) in enumerate((((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 1, 3, 4), (5, 4, 6)), ((5, 3, 4), (4, 6)))):
        case(f"matmul_{i}", "MatMul", [f(*a), f(*b)], [F])
        case(f"matmul_f64_{i}", "MatMul", [f(*a).astype(np.float64), f(*b).astype(np.float64)], [T.DOUBLE])
    case("mmint_rows", "MatMulInteger", [u8(3, 4), u8(4, 5), scalar(7, np.uint8), u8(5)], [T.INT32])
    case("mmint_batch", "MatMulInteger", [u8(2, 3, 4), i8(4, 5), scalar(7, np.uint8), scalar(3, np.int8)], [T.INT32])
    case("qmm", "QLinearMatMul", [u8(3, 8), scalar(.02), scalar(100, np.uint8), u8(8, 5), abs(f(5)) * .01, u8(5), scalar(.1),
         scalar(99, np.uint8)], [T.UINT8])


def reductions():
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"):
        for t in (np.float32, np.float64, np.int32, np.int64):
            x = abs(f(2, 3, 4)).astype(np.float64) + .1
            if np.dtype(t).kind == "i" and op in ("Prod", "LogSumExp"):
                continue  # through float
            x = (x * 4 + 1).astype(t) if np.dtype(t).kind == "i" else x.astype(t)
            code = helper.np_dtype_to_tensor_dtype(np.dtype(t))
            for j, (axes, kw) in enumerate(((None, {}), ([1], {"keepdims": 0}), ([0, -1], {}), ([], {"noop_with_empty_axes": 1}))):
                a = None if axes is None else np.array(axes, np.int64)
                case(f"reduce{op}_{np.dtype(t).name}_{j}", "Reduce" + op, [x, a], [code], inits="b", **kw)


def trees(count, classes, each, prefix, depth=4, modes=("BRANCH_LEQ",), missing=False, ids=None, positive=False):
    d = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                         "missing_value_tracks_true")}
    w = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}

    def grow(t, ids_, level):
        i, at = ids_[0], len(d["treeids"])
        ids_[0] += 1
        for k, v in zip(d, (t, i, 0, 0., "LEAF", 0, 0, 0)):
            d[k].append(v)
        if level == 0 or (level < depth and rng.rand() < .25):
            for c in ids or ([rng.randint(classes)] if each == 1 else range(classes)):
                v = float(np.float32(rng.randn()))
                for k, x in zip(w, (t, i, int(c), abs(v) if positive else v)):
                    w[k].append(x)
            return i
        d["featureids"][at] = int(rng.randint(4))
        d["values"][at] = float(np.float32(rng.randn()))
        d["modes"][at] = modes[rng.randint(len(modes))]
        d["missing_value_tracks_true"][at] = int(missing and rng.randint(2))
        d["truenodeids"][at] = grow(t, ids_, level - 1)
        d["falsenodeids"][at] = grow(t, ids_, level - 1)
        return i

    for t in range(count):
        grow(t, [0], depth)
    return {**{"nodes_" + k: v for k, v in d.items()}, **{prefix + "_" + k: v for k, v in w.items()}}


def learned():
    X = f(20, 4)
    for t in (np.float32, np.float64, np.int64, np.int32):
        x, n = (X * 3).astype(t), np.dtype(t).name
        case("scaler_" + n, "Scaler", [x], [F], ML, offset=[.1, .2, .3, .4], scale=[1., 2., 3., .5])
        case("scaler_one_" + n, "Scaler", [x], [F], ML, offset=[.1], scale=[2.])
        for norm in ("MAX", "L1", "L2"):
            case(f"normalizer_{norm}_{n}", "Normalizer", [x], [F], ML, norm=norm)
        for post in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
            for k, labels in ((1, [3, 9]), (3, [3, 9, 1])):
                case(f"linear_{k}_{post}_{n}", "LinearClassifier", [x], [T.INT64, F], ML, coefficients=f(4 * k).tolist(),
                     intercepts=f(k).tolist(), classlabels_ints=labels, post_transform=post)
    case("linear_strings", "LinearClassifier", [X], [T.STRING, F], ML, coefficients=f(12).tolist(), intercepts=f(3).tolist(),
         classlabels_strings=["a", "b", "c"])
    case("regressor", "LinearRegressor", [X], [F], ML, coefficients=f(8).tolist(), intercepts=[.1, .2], targets=2)
    holes = X.copy()
    holes[rng.rand(20, 4) < .2] = np.nan
    nan = float("nan")
    case("imputer", "Imputer", [holes], [F], ML, imputed_value_floats=[1., 2., 3., 4.], replaced_value_float=nan)
    case("imputer_one", "Imputer", [holes], [F], ML, imputed_value_floats=[7.], replaced_value_float=nan)
    case("imputer_int", "Imputer", [(X * 2).astype(np.int64)], [T.INT64], ML, imputed_value_int64s=[7], replaced_value_int64=1)
    case("extract", "ArrayFeatureExtractor", [X, np.array([[2, 0, 3]])], [F], ML)
    case("extract_vector", "ArrayFeatureExtractor", [X[0], np.array([2, 0, 3])], [F], ML)
    case("extract_strings", "ArrayFeatureExtractor", [np.array(["a", "b", "c"]), np.array([2, 0, 1, 1])], [T.STRING], ML)
    case("features", "FeatureVectorizer", [X, X[:, :2] * 2], [F], ML, inputdimensions=[3, 4])
    case("onehot", "OneHotEncoder", [np.array([[1, 5], [7, 9]])], [F], ML, cats_int64s=[5, 7, 1])
    case("onehot_strings", "OneHotEncoder", [np.array(["a", "z", "b"])], [F], ML, cats_strings=["b", "a"])
    cats = dict(cats_strings=["b", "a"], cats_int64s=[3, 4])
    case("categories", "CategoryMapper", [np.array([["a", "z", "b"]])], [T.INT64], ML, **cats)
    case("categories_back", "CategoryMapper", [np.array([[3, 4, 5]])], [T.STRING], ML, **cats)
    case("labels", "LabelEncoder", [np.array([3, 4, 5])], [F], ML, keys_int64s=[4, 3], values_floats=[.5, .25], default_float=-1.)
    for k in (2, 3, 5):
        per, pairs = [2 + i for i in range(k)], k * (k - 1) // 2
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
            for prob in (0, 1):
                p = dict(prob_a=(-1 - rng.rand(pairs)).tolist(), prob_b=f(pairs).tolist()) if prob else {}
                case(f"svc_{k}_{kernel}_{prob}", "SVMClassifier", [X], [T.INT64, F], ML, classlabels_ints=list(range(5, 5 + k)),
                     kernel_type=kernel, kernel_params=[.5, .1, 2.], coefficients=f((k - 1) * sum(per)).tolist(),
                     rho=f(pairs).tolist(), support_vectors=f(sum(per) * 4).tolist(), vectors_per_class=per, **p)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        case(f"svr_{kernel}", "SVMRegressor", [X], [F], ML, coefficients=f(6).tolist(), rho=[.2], support_vectors=f(24).tolist(),
             n_supports=6, kernel_type=kernel, kernel_params=[.5, .1, 2.])
    every = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
    for n in (1, 5, 40):
        for k in (3, 4):
            for each in (1, 2):
                for post in ("NONE", "SOFTMAX", "LOGISTIC"):
                    case(f"tree_class_{n}_{k}_{each}_{post}", "TreeEnsembleClassifier", [X], [T.INT64, F], ML,
                         classlabels_int64s=list(range(10, 10 + k)), base_values=f(k).tolist(), post_transform=post,
                         **trees(n, k, each, "class"))
        for positive in (False, True):
            for post in ("NONE", "LOGISTIC"):
                for base in ({}, {"base_values": [.2]}):
                    case(f"tree_binary_{n}_{positive}_{post}_{len(base)}", "TreeEnsembleClassifier", [X], [T.INT64, F], ML,
                         classlabels_int64s=[10, 11], post_transform=post, **base,
                         **trees(n, 2, 1, "class", ids=[0], positive=positive))
        for agg in ("SUM", "AVERAGE", "MIN", "MAX"):
            for k in (1, 3):
                case(f"tree_{agg}_{n}_{k}", "TreeEnsembleRegressor", [X], [F], ML, n_targets=k, aggregate_function=agg,
                     base_values=[.5] * k, **trees(n, k, 2, "target"))
        case(f"tree_missing_{n}", "TreeEnsembleRegressor", [holes], [F], ML, n_targets=2,
             **trees(n, 2, 2, "target", modes=every, missing=True))
        case(f"tree_f64_{n}", "TreeEnsembleRegressor", [X.astype(np.float64)], [F], ML, n_targets=2, **trees(n, 2, 2, "target"))
    case("tree_strings", "TreeEnsembleClassifier", [X], [T.STRING, F], ML, classlabels_strings=["x", "y", "z"],
         base_values=[.1, .2, .3], **trees(5, 3, 2, "class"))


def fused():
    x, g, b = f(2, 5, 8), f(8), f(8)
    case("gelu", "Gelu", [x], [F], MS)
    case("bias_gelu", "BiasGelu", [x, b], [F], MS)
    case("fast_gelu", "FastGelu", [x, b], [F], MS)
    case("quick_gelu", "QuickGelu", [x], [F], MS, alpha=1.5)
    case("simplified_norm", "SimplifiedLayerNormalization", [x, g], [F, F], axis=-1, epsilon=1e-5)
    case("skip_norm", "SkipLayerNormalization", [x, f(2, 5, 8), g, b, f(8)], [F, None, None, F], MS)
    case("skip_norm_row", "SkipLayerNormalization", [x, f(5, 8), g, b], [F], MS)
    case("skip_simplified", "SkipSimplifiedLayerNormalization", [x, f(2, 5, 8), g, f(8)], [F, None, None, F], MS)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    ids, seg = rng.randint(0, 10, (2, 5)).astype(np.int32), rng.randint(0, 2, (2, 5)).astype(np.int32)
    case("embed", "EmbedLayerNormalization", [ids, seg, f(10, 8), f(6, 8), f(2, 8), g, b, mask], [F, T.INT32], MS)
    case("embed_plain", "EmbedLayerNormalization", [ids, None, f(10, 8), f(6, 8), None, g, b], [F, T.INT32], MS)
    case("fused_matmul", "FusedMatMul", [f(2, 3, 5, 4), f(2, 3, 6, 4)], [F], MS, transB=1, alpha=.5)
    case("fused_matmul_batch", "FusedMatMul", [f(3, 2, 4), f(2, 4, 6)], [F], MS, transBatchA=1)
    case("fused_conv", "FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4), f(1, 4, 8, 8)], [F], MS, activation="Relu", pads=[1] * 4)
    case("fused_conv_clip", "FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3)], [F], MS, activation="Clip", activation_params=[0., 2.])
    case("fused_gemm", "FusedGemm", [f(3, 4), f(4, 5), f(5)], [F], MS, activation="LeakyRelu", activation_alpha=.2)
    for bits, size in ((4, 32), (4, 16), (8, 32), (2, 32)):
        for K in (64, 72):
            n = (K + size - 1) // size
            for zeros in (None, u8(6, (n * bits + 7) // 8)):
                case(f"nbits_{bits}_{size}_{K}_{zeros is None}", "MatMulNBits", [f(2, 3, K), u8(6, n, size * bits // 8),
                     abs(f(6, n)) * .1, zeros], [F], MS, inits="bcd", K=K, N=6, bits=bits, block_size=size)
    for bits, K in ((4, 64), (8, 72)):           # the operand in bytes as well
        n = (K + 31) // 32
        case(f"nbits_bytes_{bits}_{K}", "MatMulNBits", [f(2, 3, K), u8(6, n, 32 * bits // 8), abs(f(6, n)) * .1],
             [F], MS, inits="bc", K=K, N=6, bits=bits, block_size=32, accuracy_level=4)
    case("int_to_float", "MatMulIntegerToFloat", [u8(3, 16), u8(16, 5), scalar(.02), abs(f(5)), scalar(3, np.uint8), u8(5), f(5)],
         [F], MS)
    case("dynamic_matmul", "DynamicQuantizeMatMul", [f(3, 16), i8(16, 5), scalar(.03), scalar(0, np.int8), f(5)], [F], MS)
    for t, gen, code in ((np.uint8, u8, T.UINT8), (np.int8, i8, T.INT8)):
        n = np.dtype(t).name

        def z(v):
            return scalar(v, t)
        two = [gen(2, 3, 4), scalar(.1), z(5), gen(3, 4), scalar(.2), z(7)]
        case("qadd_" + n, "QLinearAdd", two + [scalar(.3), z(2)], [code], MS)
        case("qmul_" + n, "QLinearMul", two + [scalar(3.), z(2)], [code], MS)
        one = [gen(2, 3, 6, 6), scalar(.05), z(5)]
        case("qsigmoid_" + n, "QLinearSigmoid", one + [scalar(.004), z(2)], [code], MS)
        case("qleaky_" + n, "QLinearLeakyRelu", one + [scalar(.1), z(2)], [code], MS, alpha=.1)
        case("qglobal_" + n, "QLinearGlobalAveragePool", one + [scalar(.1), z(2)], [code], MS)
        case("qglobal_last_" + n, "QLinearGlobalAveragePool", one + [scalar(.1), z(2)], [code], MS, channels_last=1)
        case("qaverage_" + n, "QLinearAveragePool", one + [scalar(.073), z(2)], [code], MS, kernel_shape=[3, 3], pads=[1] * 4,
             strides=[2, 2])
        case("qconcat_" + n, "QLinearConcat", [scalar(.1), z(3), gen(2, 3), scalar(.05), z(5), gen(2, 4), scalar(.2), z(1)],
             [code], MS, axis=1)
        case("qwhere_" + n, "QLinearWhere", [np.array([[True], [False]]), gen(2, 3), scalar(.05), z(5), gen(2, 3), scalar(.2),
             z(1), scalar(.1), z(3)], [code], MS)
        case("qgemm_" + n, "QGemm", [gen(3, 8), scalar(.05), z(5), gen(8, 4), scalar(.02), z(1),
             rng.randint(-100, 100, 4).astype(np.int32), scalar(.5), z(3)], [code], MS)
        case("qsoftmax_" + n, "QLinearSoftmax", [gen(2, 3, 4), scalar(.01), z(5), scalar(1 / 256.), z(0 if t == np.uint8 else -128)],
             [code], MS, axis=-1, opset=13)
        case("nhwc_" + n, "NhwcMaxPool", [gen(2, 6, 6, 3)], [code], MS, kernel_shape=[3, 3], strides=[2, 2])
    for metric in ("euclidean", "sqeuclidean"):
        case("cdist_" + metric, "CDist", [f(3, 4), f(5, 4)], [F], MS, metric=metric)


def attention():
    D, N = 16, 4
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    masks = (None, np.array([3, 5], np.int32), np.array([4, 5, 1, 0], np.int32), mask, (rng.rand(2, 5, 5) > .3).astype(np.int32))
    for uni in (0, 1):
        for i, m in enumerate(masks):
            case(f"attention_{uni}_{i}", "Attention", [f(2, 5, 12), f(12, 3 * D) * .3, f(3 * D), m], [F], MS, num_heads=N,
                 unidirectional=uni)
    case("attention_past", "Attention", [f(2, 3, 12), f(12, 3 * D) * .3, f(3 * D), None, f(2, 2, N, 4, D // N)], [F, F], MS,
         num_heads=N, unidirectional=1)
    case("attention_sizes", "Attention", [f(2, 5, 12), f(12, 40) * .3, f(40)], [F], MS, num_heads=N, qkv_hidden_sizes=[16, 16, 8])
    case("qattention", "QAttention", [u8(2, 5, 12), i8(12, 3 * D), f(3 * D), scalar(.01), scalar(.01), np.array([3, 5], np.int32),
         scalar(120, np.uint8), scalar(0, np.int8)], [F], MS, num_heads=N)
    q = [f(2, 5, D), f(2, 6, D), f(2, 6, D)]
    case("mha", "MultiHeadAttention", q, [F], MS, num_heads=N)
    case("mha_bias", "MultiHeadAttention", q[:2] + [f(2, 6, 8), f(2 * D + 8)], [F], MS, num_heads=N)
    case("mha_scores", "MultiHeadAttention", q + [None, None, f(1, N, 5, 6)], [F], MS, num_heads=N)
    case("mha_4d", "MultiHeadAttention", [q[0], f(2, N, 6, D // N), f(2, N, 6, D // N)], [F], MS, num_heads=N)
    s = [f(2, 5, D), f(2, 5, D), f(2, 5, D)]
    case("mha_mask", "MultiHeadAttention", s + [None, mask], [F], MS, num_heads=N)
    case("mha_lengths", "MultiHeadAttention", s + [None, np.array([3, 5], np.int32)], [F], MS, num_heads=N)
    case("mha_causal", "MultiHeadAttention", s, [F], MS, num_heads=N, unidirectional=1)
    case("mha_past", "MultiHeadAttention", [f(2, 1, D), f(2, 1, D), f(2, 1, D), f(3 * D), None, None, f(2, N, 4, D // N),
         f(2, N, 4, D // N)], [F, F, F], MS, num_heads=N)
    H, NH, KV = 16, 4, 2
    cos, sin = f(32, H // 2), f(32, H // 2)

    def group(name, B, S, past, lens, total, packed=False, more=(), **kw):
        qkv = [f(B, S, (NH + 2 * KV) * H), None, None] if packed else [f(B, S, NH * H), f(B, S, KV * H), f(B, S, KV * H)]
        cache = [None, None] if past is None else [f(B, KV, past, H), f(B, KV, past, H)]
        case("gqa_" + name, "GroupQueryAttention", qkv + cache + [np.array(lens, np.int32), scalar(total, np.int32), cos, sin]
             + list(more), [F, F, F], MS, num_heads=NH, kv_num_heads=KV, **kw)

    group("prompt", 2, 5, None, [4, 4], 5)
    group("rotary", 2, 5, 0, [4, 4], 5, do_rotary=1)
    group("decode", 2, 1, 6, [4, 6], 7, do_rotary=1)
    group("packed", 1, 1, 6, [6], 7, packed=True, do_rotary=1, rotary_interleaved=1)
    group("window", 1, 6, 0, [5], 6, local_window_size=2)
    group("window_decode", 1, 1, 6, [6], 7, local_window_size=3)
    group("softcap", 1, 5, 0, [4], 5, softcap=2.)
    group("smooth", 1, 5, 0, [4], 5, smooth_softmax=1)
    group("sink", 1, 5, 0, [4], 5, more=(None, None, f(NH)))
    group("scores", 1, 5, 0, [4], 5, more=(None, f(1, NH, 5, 5)))
    group("large_cache", 1, 1, 10, [6], 7, do_rotary=1)
    group("several", 1, 3, 4, [6], 7, do_rotary=1)
    for il in (0, 1):
        ids = rng.randint(0, 32, (2, 5))
        case(f"rotary_start_{il}", "RotaryEmbedding", [f(2, 5, NH * H), np.array([2]), cos, sin], [F], MS, interleaved=il)
        case(f"rotary_4d_{il}", "RotaryEmbedding", [f(2, NH, 5, H), ids, cos, sin], [F], MS, interleaved=il)
        case(f"rotary_part_{il}", "RotaryEmbedding", [f(2, 5, NH * H), ids, f(32, 2), f(32, 2)], [F], MS, interleaved=il,
             num_heads=NH, rotary_embedding_dim=4)


def contributed():
    ms, I32, I64 = MS, T.INT32, T.INT64
    x = f(3, 8)
    case("ms_expand_dims", "ExpandDims", [x, scalar(-1, np.int32)], [F], ms, inits="b")
    case("ms_range", "Range", [scalar(1, np.int64), scalar(9, np.int64), scalar(3, np.int64)], [I64], ms)
    case("ms_range_one", "Range", [scalar(1.5), scalar(4)], [F], ms)
    for mode in ("bilinear", "nearest", "bicubic"):
        case("ms_grid_" + mode, "GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2) * np.float32(0.6)], [F], ms, mode=mode,
             padding_mode="reflection")
    case("ms_unique", "Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], [F, I64, I64], ms)
    w = rng.randint(-300, 300, (4, 5)).astype(np.int16)
    case("ms_matmul16", "MatMulInteger16", [rng.randint(-300, 300, (2, 3, 4)).astype(np.int16), w], [I32], ms)
    case("ms_gated_add", "GatedAdd", [x, f(3, 8), f(3, 1)], [F], ms)
    case("ms_scaled_silu", "ScaledSiLU", [x], [F], ms, alpha=1.5)
    case("ms_scaled_silu_given", "ScaledSiLU", [x, scalar(0.7)], [F], ms)
    for act in ("silu", "sigmoid"):
        case("ms_gated_rms_" + act, "GatedRMSNorm", [x, f(4), f(3, 8)], [F], ms, activation=act)
    case("ms_branch_rms", "BranchwiseRMSNorm", [f(2, 3, 4), f(3, 4)], [F], ms)
    case("ms_branch_rms_flat", "BranchwiseRMSNorm", [f(2, 12), f(12)], [F], ms, num_branches=3)
    case("ms_branch_rms_shared", "BranchwiseRMSNorm", [f(2, 12), f(4)], [F], ms, num_branches=3)
    case("ms_branch_rms_plain", "BranchwiseRMSNorm", [f(2, 3, 4)], [F], ms)
    case("ms_lin_gate", "LinearAttentionGate", [f(2, 3, 4), f(4), f(4), f(2, 3, 4)], [F, F], ms)
    case("ms_lin_gate_decay", "LinearAttentionGate", [f(2, 3, 4), f(4), f(4)], [F], ms)
    case("ms_unfold", "UnfoldTensor", [f(2, 9, 3)], [F], ms, dim=1, size=4, step=2)
    case("ms_inverse", "Inverse", [f(3, 4, 4)], [F], ms)
    for bits in (4, 8):
        case(f"ms_gather_blocks_{bits}", "GatherBlockQuantized",
             [u8(6, 32 * bits // 8), np.array([[5, -6], [2, 0]]), f(6, 2), u8(6, bits // 4)], [F], ms, inits="acd", bits=bits,
             block_size=16)
        case(f"ms_gather_blocks_plain_{bits}", "GatherBlockQuantized", [u8(6, 32 * bits // 8), np.array([3, 1]), f(6, 2)], [F], ms,
             inits="ac", bits=bits, block_size=16)
    case("ms_causal_conv", "CausalConvWithState", [f(2, 3, 6), f(3, 1, 4), f(3), f(2, 3, 3)], [F, F], ms, activation="silu")
    case("ms_linear_attention", "LinearAttention", [f(1, 5, 8), f(1, 5, 8), f(1, 5, 8), f(1, 2, 4, 4)], [F, F], ms,
         q_num_heads=2, kv_num_heads=2, update_rule="linear")
    for act in ("relu", "gelu", "silu", "identity"):
        case("ms_moe_" + act, "MoE", [f(2, 3, 8), f(6, 4), f(4, 5, 8), f(4, 5), f(4, 8, 5), f(4, 8)], [F], ms, k=2,
             activation_type=act, normalize_routing_weights=int(act == "silu"))
    case("ms_moe_plain", "MoE", [f(6, 8), f(6, 4), f(4, 5, 8), None, f(4, 8, 5)], [F], ms, k=1)
    case("ms_moe_gated", "MoE", [f(6, 8), f(6, 4), f(4, 5, 8), None, f(4, 8, 5), None, f(4, 5, 8)], [F], ms, k=2,
         activation_type="silu")
    for fused in (1, 2):
        case(f"ms_moe_swiglu_{fused}", "MoE", [f(6, 8), f(6, 4), f(4, 10, 8), f(4, 10), f(4, 8, 5), f(4, 8)], [F], ms, k=2,
             activation_type="swiglu", swiglu_fusion=fused, swiglu_limit=2.0, activation_alpha=1.7, activation_beta=1.0)
    q = [u8(1, 5, 6, 4), scalar(0.02), scalar(120, np.uint8), i8(8, 4, 3, 3), scalar(0.01), scalar(0, np.int8), scalar(0.05),
         scalar(128, np.uint8), rng.randint(-99, 99, 8).astype(np.int32)]
    case("ms_qconv_last", "QLinearConv", q, [T.UINT8], ms, inits="defi", channels_last=1, pads=[1, 1, 1, 1])


def lengths():
    """Quantized sequences of several lengths: a batch shares a range, in which ended ones are 0 and steps that none has
    are not."""
    H, x = 4, f(6, 3, 6)
    x[5] *= 9
    for d, k in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        case(f"qlstm_{d}_lengths", "DynamicQuantizeLSTM", [x, i8(k, 6, 4 * H), i8(k, H, 4 * H), f(k, 8 * H),
             np.array([5, 2, 3], np.int32), None, None, None, abs(f(k)) * .01, np.zeros(k, np.int8), abs(f(k)) * .01,
             np.zeros(k, np.int8)], [F, F, F], MS, inits="bcijkl", hidden_size=H, direction=d)


def batches():
    """Each number of rows that a step's tile may have, of units that fill no vector."""
    I, H = 6, 20
    for B in (1, 2, 3, 5, 6, 7, 8, 9):
        x = f(4, B, I)
        case(f"lstm_batch_{B}", "LSTM", [x, f(2, 4 * H, I), f(2, 4 * H, H), f(2, 8 * H)], [F, F, F], hidden_size=H,
             direction="bidirectional")
        case(f"gru_batch_{B}", "GRU", [x, f(2, 3 * H, I), f(2, 3 * H, H), f(2, 6 * H)], [F, F], hidden_size=H,
             direction="bidirectional", linear_before_reset=B % 2)
        case(f"qlstm_batch_{B}", "DynamicQuantizeLSTM", [x, i8(2, I, 4 * H), i8(2, H, 4 * H), f(2, 8 * H), None, None, None,
             None, abs(f(2)) * .01, np.zeros(2, np.int8), abs(f(2)) * .01, np.zeros(2, np.int8)], [F, F, F], MS,
             inits="bcijkl", hidden_size=H, direction="bidirectional")


for make in (windows, batches, recurrent, products, reductions, learned, fused, attention, contributed, lengths):
    make()
report()
