"""Operators whose parameters are operands: each as a graph input, with two values in two data sets for one
artefact. Results are onnxruntime's and the standard's reference's, which must agree; where one cannot say,
the other's. usage: parameters.py OUT"""
import os
import sys
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.simplefilter("ignore")
ort.set_default_logger_severity(4)
out = sys.argv[1]
rng = np.random.RandomState(3)
count = 0


def f(*s):
    return rng.randn(*s).astype(np.float32)


def i64(*v):
    return np.array(v, np.int64)


def n64(v):
    return np.array(v, np.int64)


def f32(*v):
    return np.array(v, np.float32)


def n32(v):
    return np.array(v, np.float32)


def on_ort(model, feed):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), o).run(None, feed)


def on_reference(model, feed):
    return ReferenceEvaluator(model).run(None, feed)


def attempt(run, model, feed):
    try:
        return [np.asarray(v) for v in run(model, feed)]
    except Exception:
        return None


def results(name, model, feed, by):
    a = None if by == "text" else attempt(on_ort, model, feed)
    b = None if by == "ort" else attempt(on_reference, model, feed)
    if a is None and b is None:
        sys.exit(f"{name}: neither onnxruntime nor the reference runs it")
    if a is not None and b is not None:
        for x, y in zip(a, b):
            if x.shape != y.shape or (x.dtype.kind in "fiub" and not np.allclose(x, y, 1e-3, 1e-4, equal_nan=True)):
                sys.exit(f"{name}: onnxruntime and the reference differ:\n{x}\n{y}")
    return a if a is not None else b


def case(name, op, fixed, first, second, nout=1, opset=21, domain="", by="", outs=None, **attrs):
    """fixed: operands before the parameters; first, second: the parameters' two values (None: left out); a
    dimension that differs between the sets is a symbol. by: "ort" or "text" where the other is wrong."""
    global count
    sets = [[*fixed, *v] for v in (first, second)]
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(sets[0])]
    ys = [f"y{i}" for i in range(nout)]
    node = helper.make_node(op, names, ys, domain=domain, **attrs)
    ins = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype),
                                         [d if d == e else f"{n}_{i}" for i, (d, e) in enumerate(zip(a.shape, b.shape))])
           for n, a, b in zip(names, *sets) if n]
    sets_ = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    one = helper.make_model(helper.make_graph([node], "g", ins, [onnx.ValueInfoProto(name=y) for y in ys]),
                            opset_imports=sets_, ir_version=10)
    want = []
    for s in sets:
        want.append(results(name, one, {n: a for n, a in zip(names, s) if n}, by))
    model = helper.make_model(
        helper.make_graph([node], "g", ins, [helper.make_tensor_value_info(
            y, helper.np_dtype_to_tensor_dtype(w.dtype), None) for y, w in zip(ys, want[0])]),
        opset_imports=sets_, ir_version=10)
    assert any(a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(*want)), f"{name}: the values tell nothing"
    for k, s in enumerate(sets):
        d = f"{out}/{name}/test_data_set_{k}"
        os.makedirs(d)
        for kind, values in (("input", [a for a in s if a is not None]), ("output", want[k])):
            for i, a in enumerate(values):
                with open(f"{d}/{kind}_{i}.pb", "wb") as file:
                    file.write(numpy_helper.from_array(a).SerializeToString())
    onnx.save(model, f"{out}/{name}/model.onnx")
    count += 1


def axes():
    x = f(2, 3, 4)
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
               "ReduceLogSumExp", "ReduceSumSquare"):
        a = np.abs(x) if op == "ReduceLogSum" else x
        case(f"{op}_keep", op, [a], [i64(0, 2)], [i64(1, -1)])
        case(f"{op}_drop", op, [a], [i64(0)], [i64(-1)], keepdims=0)
        case(f"{op}_none", op, [a], [i64()], [i64(1)], by="ort" if op == "ReduceLogSum" else "")
    case("ReduceMax_ints", "ReduceMax", [x.astype(np.int32)], [i64(2)], [i64(0)], keepdims=0)
    s = f(1, 3, 1, 2)
    case("Squeeze", "Squeeze", [], [s, i64(0)], [f(3, 1, 1, 2), i64(-2)])
    case("Unsqueeze", "Unsqueeze", [x], [i64(0, 2)], [i64(-1, 1)])
    for op, opset in (("CumSum", 14), ("CumProd", 26)):
        case(op, op, [x], [n64(0)], [n64(-1)], opset=opset)
        case(op + "_back", op, [x], [n64(2)], [n64(1)], opset=opset, exclusive=1, reverse=1)
    case("DFT", "DFT", [f(2, 5, 6, 1)], [n64(5), n64(1)], [n64(8), n64(-2)], opset=20, by="text")
    case("DFT_onesided", "DFT", [f(2, 5, 6, 1)], [None, n64(1)], [None, n64(2)], opset=20, by="text", onesided=1)


def shapes():
    x = f(2, 3, 4)
    case("Reshape", "Reshape", [x], [i64(4, 6)], [i64(0, -1)])
    case("Reshape_zero", "Reshape", [], [np.zeros((0, 3), np.float32), i64(3, 0)], [f(4, 3), i64(3, 4)], allowzero=1)
    case("Expand", "Expand", [f(3, 1)], [i64(2, 1, 6)], [i64(4, 3, 1)])
    case("ConstantOfShape", "ConstantOfShape", [], [i64(2, 3)], [i64(0, 4)])
    case("Tile", "Tile", [x], [i64(1, 2, 3)], [i64(2, 0, 1)])
    case("Range", "Range", [], [n64(2), n64(11), n64(3)], [n64(5), n64(-4), n64(-2)])
    case("Range_float", "Range", [], [n32(0), n32(2), n32(.5)], [n32(1), n32(-1), n32(-.75)])
    case("Range_empty", "Range", [], [n64(3), n64(3), n64(1)], [n64(0), n64(3), n64(2)])
    case("OneHot", "OneHot", [i64(0, 2, -1)], [n64(3), f32(0, 1)], [n64(5), f32(2, -1)])
    case("OneHot_axis", "OneHot", [i64(0, 2, -1)], [n64(3), i64(0, 1)], [n64(4), i64(7, 9)], axis=0)
    case("CenterCropPad", "CenterCropPad", [x], [i64(2, 2, 6)], [i64(4, 3, 1)])
    case("CenterCropPad_axes", "CenterCropPad", [x], [i64(5, 2)], [i64(1, 7)], axes=[1, 2])
    case("AffineGrid", "AffineGrid", [f(1, 2, 3)], [i64(1, 1, 2, 3)], [i64(1, 2, 4, 2)], opset=20)
    case("Col2Im", "Col2Im", [f(1, 4, 6)], [i64(3, 4), i64(2, 2)], [i64(4, 3), i64(2, 2)])
    case("Col2Im_block", "Col2Im", [], [f(1, 4, 6), i64(3, 4), i64(2, 2)], [f(1, 6, 6), i64(3, 5), i64(2, 3)], by="text")
    pooled, at = f32(1, 2, 3, 4).reshape(1, 1, 2, 2), i64(5, 7, 13, 15).reshape(1, 1, 2, 2)
    case("MaxUnpool", "MaxUnpool", [pooled, at], [i64(1, 1, 5, 5)], [i64(1, 1, 6, 4)], kernel_shape=[2, 2], strides=[2, 2],
         by="text")


def slices():
    x = f(5, 6, 7)
    case("Slice", "Slice", [x], [i64(1, 0), i64(4, 6)], [i64(-3, 2), i64(9, -1)])
    case("Slice_steps", "Slice", [x], [i64(0, 6), i64(5, -9), i64(0, 2), i64(2, -2)], [i64(5, 1), i64(1, 7), i64(1, 0), i64(-1, 3)])
    huge = np.iinfo(np.int64)
    case("Slice_ends", "Slice", [x], [i64(1), i64(huge.max), i64(1)], [i64(-1), i64(huge.min + 1), i64(2)])
    case("Split", "Split", [x], [i64(1, 4)], [i64(3, 2)], nout=2)
    case("Split_axis", "Split", [x], [i64(0, 6, 1)], [i64(2, 2, 3)], nout=3, axis=-1)
    case("Pad", "Pad", [x], [i64(1, 0, 2, 0, 3, 1)], [i64(0, -1, 0, -2, 0, 4)])
    case("Pad_value", "Pad", [x], [i64(1, 0, 2, 0, 3, 1), n32(2.5)], [i64(0, 1, 0, 2, 0, 4), n32(-1)])
    case("Pad_axes", "Pad", [x], [i64(1, 2), None, i64(0)], [i64(3, 0), None, i64(-1)])
    case("Pad_axes_value", "Pad", [x], [i64(1, 2), n32(7), i64(1)], [i64(0, 3), n32(8), i64(-1)])
    for mode in ("reflect", "edge", "wrap"):
        case("Pad_" + mode, "Pad", [x], [i64(1, 0, 2, 0, 3, 1)], [i64(2, 1, 0, 2, 0, 4)], mode=mode)
    case("Trilu", "Trilu", [x], [n64(1)], [n64(-2)])
    case("Trilu_lower", "Trilu", [x], [n64(-9)], [n64(2)], upper=0)
    case("TopK", "TopK", [x], [i64(2)], [i64(5)], nout=2)
    case("TopK_least", "TopK", [x], [i64(5)], [i64(0)], nout=2, axis=0, largest=0)
    case("Gather", "Gather", [x], [i64(0, -1, 2)], [i64(4, 4, -5)])
    case("TensorScatter", "TensorScatter", [f(2, 3, 6, 4), f(2, 3, 2, 4)], [i64(0, 3)], [i64(4, 1)], opset=24)
    case("Compress", "Compress", [x], [np.array([1, 0, 1, 0, 1], bool)], [np.array([0, 0, 0, 1, 0], bool)], axis=0)


def sampling():
    x = f(1, 2, 4, 5)
    for mode in ("nearest", "linear", "cubic"):
        case("Resize_scales_" + mode, "Resize", [x, None], [f32(1, 1, 2, .6)], [f32(1, 1, .5, 1.7)], mode=mode)
        case("Resize_sizes_" + mode, "Resize", [x, None, None], [i64(1, 2, 7, 3)], [i64(1, 2, 3, 9)], mode=mode)
    case("Resize_antialias", "Resize", [x, None], [f32(1, 1, .6, .8)], [f32(1, 1, .5, .4)], mode="linear", antialias=1)
    case("Resize_roi", "Resize", [x], [f32(0, 0, .1, .2, 1, 1, .8, .7), f32(1, 1, 2, 2)], [f32(0, 0, .3, .1, 1, 1, .9, .6), f32(1, 1, 1.5, 2)],
         mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=3.)
    case("Resize_axes", "Resize", [x, None, None], [i64(6, 4)], [i64(3, 8)], axes=[3, 2], mode="linear")
    for policy in ("not_larger", "not_smaller"):
        case("Resize_" + policy, "Resize", [x, None, None], [i64(6, 4)], [i64(8, 12)], axes=[2, 3], by="text",
             keep_aspect_ratio_policy=policy)
    for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"):
        case("Resize_" + mode, "Resize", [x, None, None], [i64(1, 2, 7, 1)], [i64(1, 2, 3, 9)], mode="linear",
             coordinate_transformation_mode=mode)
    case("Upsample", "Upsample", [x], [f32(1, 1, 2, 3)], [f32(1, 1, 1, 2)], opset=9)
    boxes = np.sort(rng.rand(1, 8, 2, 2), 2).reshape(1, 8, 4).astype(np.float32)
    scores = rng.rand(1, 2, 8).astype(np.float32)
    case("NonMaxSuppression", "NonMaxSuppression", [boxes, scores], [i64(3), f32(.5), f32(.1)], [i64(1), f32(.9), f32(.6)])
    case("RoiAlign", "RoiAlign", [x], [f32(0, 0, 3, 2).reshape(1, 4), i64(0)], [f32(1, 1, 4, 3).reshape(1, 4), i64(0)],
         output_height=2, output_width=2, sampling_ratio=2)


def values():
    x = f(3, 4)
    case("Clip", "Clip", [x], [n32(-.5), n32(.5)], [n32(0), n32(9)])
    case("Clip_min", "Clip", [x], [n32(-.5)], [n32(.5)])
    case("Clip_ints", "Clip", [i64(-5, 0, 7)], [n64(-1), n64(3)], [n64(-9), n64(0)])
    case("QuantizeLinear", "QuantizeLinear", [x], [n32(.1), np.array(3, np.uint8)], [n32(.02), np.array(128, np.uint8)])
    case("QuantizeLinear_axis", "QuantizeLinear", [x], [f32(.1, .2, .3), np.array([0, 1, 2], np.int8)],
         [f32(.3, .1, .1), np.array([5, 0, -7], np.int8)], axis=0)
    case("DequantizeLinear", "DequantizeLinear", [np.arange(12, dtype=np.uint8).reshape(3, 4)], [n32(.1), np.array(3, np.uint8)],
         [n32(2), np.array(0, np.uint8)])
    case("Pow", "Pow", [np.abs(x)], [n32(2)], [n32(-.5)])
    case("Mod", "Mod", [i64(-7, 5, 9)], [n64(3)], [n64(-4)])
    case("BitShift", "BitShift", [np.array([1, 200, 7], np.uint8)], [np.array(1, np.uint8)], [np.array(6, np.uint8)],
         direction="RIGHT")
    case("Where", "Where", [], [np.array(True), x, n32(0)], [np.array(False), x, n32(2)])
    case("PRelu", "PRelu", [x], [n32(.1)], [n32(2)])
    case("Gemm_bias", "Gemm", [f(3, 4), f(4, 2)], [n32(1)], [n32(-2)])
    case("LayerNormalization", "LayerNormalization", [x], [f(4)], [f(4)])


def signals():
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        case(op, op, [], [n64(10)], [n64(7)])
    case("MelWeightMatrix", "MelWeightMatrix", [], [n64(8), n64(16), n64(8192), n32(0), n32(4096)],
         [n64(5), n64(32), n64(8000), n32(20), n32(3000)], by="ort")
    case("STFT", "STFT", [f(1, 32, 1)], [n64(4), None, n64(8)], [n64(8), None, n64(16)], by="text")
    case("STFT_window", "STFT", [f(1, 32, 1)], [n64(4), np.hanning(8).astype(np.float32), n64(8)],
         [n64(8), np.hanning(16).astype(np.float32), n64(16)], by="text")


def attention():
    q, kv = f(2, 3, 4, 8), f(2, 3, 6, 8)
    case("Attention_lens", "Attention", [q, kv, kv, None, None, None], [i64(6, 4)], [i64(2, 5)], opset=24, by="text")
    case("RotaryEmbedding", "RotaryEmbedding", [f(1, 2, 3, 4), f(9, 2), f(9, 2)], [i64(0, 1, 2).reshape(1, 3)],
         [i64(8, 3, 5).reshape(1, 3)], opset=23, by="text")
    x, w, r = f(5, 2, 3), f(1, 12, 3), f(1, 12, 3)
    case("LSTM_lens", "LSTM", [x, w, r, None], [np.array([5, 2], np.int32)], [np.array([1, 4], np.int32)], nout=2, hidden_size=3,
         by="ort")
    case("LSTM_state", "LSTM", [x, w, r, None, None], [f(1, 2, 3), f(1, 2, 3)], [f(1, 2, 3), f(1, 2, 3)], nout=3, hidden_size=3,
         by="ort")


def contributed():
    ms = "com.microsoft"
    x = f(2, 3, 4)
    case("ms_ExpandDims", "ExpandDims", [x], [np.array(0, np.int32)], [np.array(-1, np.int32)], domain=ms, by="ort")
    case("ms_Range", "Range", [], [n64(2), n64(11), n64(3)], [n64(5), n64(-4), n64(-2)], domain=ms, by="ort")
    case("ms_Pad", "Pad", [x], [i64(1, 0, 2, 0, 3, 1)], [i64(0, 1, 0, 2, 0, 4)], domain=ms, by="ort")


os.makedirs(out)
for part in (axes, shapes, slices, sampling, values, signals, attention, contributed):
    part()
print(f"{count} cases")
