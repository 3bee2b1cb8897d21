"""Products as models of one node, to be measured against the machine's peak."""
import numpy as np
import onnx
from onnx import TensorProto, helper

from compare import Case

SQUARE = [(n, n, n) for n in (128, 256, 512, 1024, 2048)]
# rows, columns, summed: of BERT-base at 128 tokens, of ResNet-50's pointwise convolutions
SHAPES = SQUARE + [(128, 768, 768), (128, 3072, 768), (128, 768, 3072),
                   (3136, 64, 256), (784, 128, 512), (196, 1024, 256), (49, 2048, 512)]


def gemm_model(path, m, n, k, constant):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s, np.float32) for s in ((m, k), (k, n)))
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    inputs = [value("a", [m, k])] + ([] if constant else [value("b", [k, n])])
    weights = [onnx.numpy_helper.from_array(b, "b")] if constant else []
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "gemm", inputs,
                              [value("y", [m, n])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    case = Case.__new__(Case)
    case.inputs = {"a": a} if constant else {"a": a, "b": b}
    case.outputs = {"y": None}
    return case


def gemm_models(folder):
    """-> (name, model file, {set: case}, operations), one at a time."""
    for m, n, k in SHAPES:
        for constant in (True, False):
            if not constant and (m, n, k) not in SQUARE:
                continue
            name = f"gemm_{m}x{n}x{k}" + ("" if constant else "_inputs")
            path = f"{folder}/{name}.onnx"
            yield name, path, {"0": gemm_model(path, m, n, k, constant)}, 2.0 * m * n * k
