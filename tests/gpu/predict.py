"""Predictions of profile for sm_80: limits and times that follow from the machine's row, and the
memory's ratios beside those that the simulator counts.

usage: predict.py TCC-ML FOLDER
"""
import json
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h

DRAM = 2039e3 * 0.88    # bytes a us that the model grants
FP32 = 19.5e6           # flops a us


def save(path, node, shapes):
    graph = h.make_graph([node], "g", [h.make_tensor_value_info(n, P.FLOAT, s) for n, s in shapes.items()],
                         [h.make_empty_tensor_value_info("y")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9), path)


def profile(tcc, path, *options, target="sm_80"):
    r = subprocess.run([tcc, "profile", path, "--target", target, "--json", *options],
                       capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"exit {r.returncode}: {r.stdout}{r.stderr}")
    return json.loads(r.stdout)["kernels"]


def large(tcc, tmp):
    """Kernels that one resource alone limits."""
    add = h.make_node("Add", ["a", "b"], ["y"])
    save(f"{tmp}/p.onnx", add, {"a": [1 << 26], "b": [1 << 26]})
    k, = profile(tcc, f"{tmp}/p.onnx")
    ideal = 3 * 4 * (1 << 26) / DRAM
    if k["limit"] != "dram" or not 1 <= k["predicted_us"] / ideal < 1.05 or k["bytes"] != 3 << 28:
        return f"a sum of {ideal:.0f} us: {k}"
    save(f"{tmp}/p.onnx", h.make_node("MatMul", ["a", "b"], ["y"]), {"a": [4096, 4096], "b": [4096, 4096]})
    k, = profile(tcc, f"{tmp}/p.onnx")
    flops = 2 * 4096**3
    if not flops <= k["flops"] < 1.01 * flops or not 1 < k["predicted_us"] / (flops / FP32) < 2.5:
        return f"a product of {flops / FP32:.0f} us: {k}"
    return None


def counted(node, shapes):
    def check(tcc, tmp):
        """Sectors and wavefronts as the simulator counts them."""
        save(f"{tmp}/p.onnx", node, shapes)
        guess, = profile(tcc, f"{tmp}/p.onnx")
        seen, = profile(tcc, f"{tmp}/p.onnx", "--simulate", "--iters", "1", "--warmup", "0")
        for key in "sector_ratio", "wavefront_ratio":
            if abs(guess[key] - seen[key]) > 0.1 * seen[key]:
                return f"{key} {guess[key]}, the simulator counts {seen[key]}"
        return None
    return check


def whole(tcc, tmp):
    """Whole sectors and no conflicts where warps have 64 threads too, of halves; and of a few pixels' channels."""
    cases = {"product": (h.make_node("MatMul", ["a", "b"], ["y"]), {"a": [256, 128], "b": [128, 256]}),
             "means": (h.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0), {"x": [1, 49, 2048]})}
    for name, (node, shapes) in cases.items():
        graph = h.make_graph([node], "g", [h.make_tensor_value_info(n, P.FLOAT16, s) for n, s in shapes.items()],
                             [h.make_empty_tensor_value_info("y")], [h.make_tensor("axes", P.INT64, [1], [1])])
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9), f"{tmp}/p.onnx")
        for target in "sm_80", "gfx942":
            k = profile(tcc, f"{tmp}/p.onnx", target=target)[0]
            if k["sector_ratio"] > 1.1 or k["wavefront_ratio"] > 1.05:
                return f"{name} on {target}: {k}"
    return None


def unknown(tcc, tmp):
    """Sizes are not guessed."""
    save(f"{tmp}/p.onnx", h.make_node("Relu", ["x"], ["y"]), {"x": ["n", 8]})
    r = subprocess.run([tcc, "profile", f"{tmp}/p.onnx", "--target", "sm_80"], capture_output=True, text=True)
    if r.returncode != 2 or "--dim n=" not in r.stderr:
        return f"exit {r.returncode}: {r.stderr}"
    return None if profile(tcc, f"{tmp}/p.onnx", "--dim", "n=4") else "no kernel"


CHECKS = {
    "large": large,
    "unknown": unknown,
    "whole": whole,
    "transpose": counted(h.make_node("Transpose", ["x"], ["y"], perm=[1, 0]), {"x": [128, 256]}),
    "pool": counted(h.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2]), {"x": [1, 8, 32, 64]}),
    "softmax": counted(h.make_node("Softmax", ["x"], ["y"]), {"x": [32, 1024]}),
    "matmul": counted(h.make_node("MatMul", ["a", "b"], ["y"]), {"a": [256, 128], "b": [128, 256]}),
}


def main():
    tcc, tmp = sys.argv[1:]
    failed = 0
    for name, check in CHECKS.items():
        fault = check(tcc, tmp)
        failed += fault is not None
        print(f"{name}: {fault or 'ok'}")
    print(f"{len(CHECKS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
