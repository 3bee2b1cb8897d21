"""Whom the matrix follows, by operator and a part of the case's name: "ort" onnxruntime, "text" the standard's
reference, "none" neither. What onnxruntime and the reference disagree on is left out of itself."""

PARTS = {
    # overflow on the way is a matter of the sum's order, which the standard leaves open
    ("AffineGrid", "float16_extreme"): "none",
    ("ConvTranspose", "extreme"): "none",
    ("GroupNormalization", "extreme"): "none",
    ("LayerNormalization", "extreme"): "none",
    # NaN and infinite weights meet the zeros that pad an operand
    ("ConvTranspose", "odd"): "none",
    ("DeformConv", "odd"): "none",
    # the mean of infinities by a running mean; the maximum of a window with NaN; neither is specified
    ("LayerNormalization", "odd"): "none",
    ("MaxPool", "odd"): "none",
    # x * slope where x is 0, which the text gives to x alone
    ("PRelu", "bfloat16_odd"): "none",
    # nothing to quantize, to transform, to recur over or to look up
    ("DynamicQuantizeLinear", "_0_"): "none",
    ("DFT", "_0_"): "none",
    ("LSTM", "dim0_0"): "none",
    ("GatherND", "_0_"): "none",
    ("Split", "_1_one"): "none",
    ("MaxUnpool", "_1_all"): "none",
    # the reference computes integers in a type of its own, or through floats that cannot hold them
    ("GridSample", "int"): "none",
    ("Shrink", "int64_extreme"): "none",
    # cases that add or interpolate truth values
    ("Col2Im", "bool"): "none",
    ("GridSample", "bool"): "none",
    # the result has the scale's type, here float; shape inference and the reference give the operand's
    ("RMSNormalization", "float"): "none",
    # transforms in f64 rounded once; the oracles round on the way
    ("DFT", "float16"): "none",
    ("STFT", "bfloat16"): "none",
}
