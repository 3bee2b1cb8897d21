#!/usr/bin/env python3
"""Reductions of few long rows: right in the simulator, and by several blocks a row.

usage: rows.py TCC
"""
import json
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto as T, helper

LONG = 1 << 15
SHAPE = [3, LONG]

CASES = {
    "sum": ([("ReduceSum", ["x"], {"keepdims": 0})], {"x": [LONG]}, T.FLOAT),
    "largest": ([("ReduceMax", ["x"], {"axes": [1]})], {"x": SHAPE}, T.FLOAT),
    "softmax": ([("Softmax", ["x"], {"axis": 1})], {"x": [2, LONG]}, T.FLOAT),
    "argmax": ([("ArgMax", ["x"], {"axis": 1})], {"x": SHAPE}, T.FLOAT),
    "mean of halves": ([("ReduceMean", ["x"], {"axes": [1]})], {"x": SHAPE}, T.FLOAT16),
    "layer norm": ([("LayerNormalization", ["x", "s"], {})], {"x": [2, 3, LONG // 3], "s": [LONG // 3]},
                   T.FLOAT),
    "instance norm": ([("InstanceNormalization", ["x", "s", "b"], {})],
                      {"x": [1, 3, 128, 256], "s": [3], "b": [3]}, T.FLOAT),
    "of columns": ([("ReduceSumSquare", ["x"], {"axes": [0], "keepdims": 0})], {"x": [LONG, 5]}, T.FLOAT),
    "odd": ([("ReduceL1", ["x"], {"axes": [1, 2]})], {"x": [2, 35, 1001]}, T.FLOAT),
}
# too few elements for parts, or rows enough for all units
WHOLE = {"layer norm"}


def model(name):
    ops, shapes, dtype = CASES[name]
    nodes = [helper.make_node(op, ins, ["y"], **attrs) for op, ins, attrs in ops]
    out = T.INT64 if ops[0][0] == "ArgMax" else dtype
    graph = helper.make_graph(nodes, "rows",
                              [helper.make_tensor_value_info(n, dtype, s) for n, s in shapes.items()],
                              [helper.make_tensor_value_info("y", out, None)])
    opset = 12 if any(op in ("ReduceSum", "ReduceSumSquare", "ReduceL1") for op, _, _ in ops) else 17
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(*args):
    r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return r.returncode, r.stdout


def main():
    tcc, bad, good = sys.argv[1], 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        for name in CASES:
            path = f"{tmp}/m.onnx"
            onnx.save(model(name), path)
            for target in ("sm_80", "gfx942"):
                code, text = run(tcc, "verify", "--target", target, "--simulate", path)
                good += code == 0
                if code:
                    print(f"{name}, {target}: {text.strip().splitlines()[-1]}")
                    bad += 1
            code, text = run(tcc, "profile", "--target", "sm_80", "--json", path)
            blocks = min(k["blocks"] for k in json.loads(text)["kernels"] if k["bytes"] >= 2 * LONG)
            several = blocks >= 8
            good += several != (name in WHOLE)
            if several == (name in WHOLE):
                print(f"{name}: {blocks:g} blocks")
                bad += 1
    print(f"{good} passed, {bad} failed")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
