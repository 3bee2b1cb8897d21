"""What the vendors' compilers make of a fixed list of kernels: no spills, registers and occupancy
as planned.

usage: gates.py TCC-ML FOLDER
"""
import json
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as P
from onnx import helper as h
from onnx import numpy_helper as nh

# (AMD's compiler keeps a step's fragments of both factors in registers: there are twice as many)
# node's name: node, operands; registers at most on NVIDIA, on AMD; threads of those a unit may hold at least
KERNELS = {
    "matmul": ("MatMul", {"a": [512, 512], "b": [512, 512]}, 80, 192, 0.25),
    "conv": ("Conv", {"x": [1, 64, 56, 56], "w": [64, 64, 3, 3]}, 88, 192, 0.25),
    "depthwise": ("Conv", {"x": [1, 64, 56, 56], "w": [64, 1, 3, 3]}, 64, 64, 0.5),
    "softmax": ("Softmax", {"x": [64, 1024]}, 48, 48, 0.5),
    "norm": ("LayerNormalization", {"x": [64, 1024], "s": [1024]}, 64, 64, 0.5),
    "transpose": ("Transpose", {"x": [512, 512]}, 40, 40, 0.75),
    "cumsum": ("CumSum", {"x": [64, 64], "axis": 1}, 40, 40, 0.75),
    "topk": ("TopK", {"x": [8, 2048], "k": [64]}, 48, 48, 0.25),
    "scatter": ("ScatterElements", {"x": [64, 64], "i": None, "u": [32, 64]}, 56, 56, 0.5),
}
TARGETS = "sm_75", "sm_80", "sm_90", "gfx942", "gfx1100"


def attributes(name):
    return {"conv": {"pads": [1] * 4}, "depthwise": {"pads": [1] * 4, "group": 64},
            "transpose": {"perm": [1, 0]}}.get(name, {})


def network(path):
    nodes, inputs, consts = [], [], []
    for name, (op, operands, *_) in KERNELS.items():
        args = []
        for k, v in operands.items():
            args.append(f"{name}.{k}")
            if k in ("axis", "k"):
                consts.append(nh.from_array(np.array(v), args[-1]))
            elif v is None:
                inputs.append(h.make_tensor_value_info(args[-1], P.INT64, [32, 64]))
            else:
                inputs.append(h.make_tensor_value_info(args[-1], P.FLOAT, v))
        outs = [f"{name}.y"] + [f"{name}.i2"] * (op == "TopK")
        nodes.append(h.make_node(op, args, outs, name=name, **attributes(name)))
    ports = [h.make_empty_tensor_value_info(n.output[-1]) for n in nodes]
    graph = h.make_graph(nodes, "g", inputs, ports, consts)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9), path)


def kernels(tcc, path, target):
    r = subprocess.run([tcc, "profile", path, "--target", target, "--json"], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"exit {r.returncode}: {r.stdout}{r.stderr}")
    return json.loads(r.stdout)["kernels"]


def faults(k, target):
    _, _, nv, amd, occupancy = KERNELS[k["nodes"][0]]
    most = nv if target.startswith("sm") else amd
    if k["spills"]:
        yield f"{k['spills']:.0f} bytes spilled"
    if k["registers"] > most:
        yield f"{k['registers']:.0f} registers, at most {most}"
    if k["occupancy"] < occupancy:
        yield f"occupancy {k['occupancy']:.2f}, at least {occupancy}"


def main():
    tcc, tmp = sys.argv[1:]
    network(f"{tmp}/gates.onnx")
    passed = failed = skipped = 0
    for target in TARGETS:
        all_kernels = kernels(tcc, f"{tmp}/gates.onnx", target)
        if "registers" not in all_kernels[0]:
            print(f"{target}: its compiler is not installed")
            skipped += 1
            continue
        missing = set(KERNELS) - {k["nodes"][0] for k in all_kernels}
        wrong = [f"{k['name']} ({k['nodes'][0]}): {f}" for k in all_kernels for f in faults(k, target)]
        wrong += [f"no kernel of {n}" for n in missing]
        if not wrong:
            print(f"{target}: {len(all_kernels)} kernels, at most {max(k['registers'] for k in all_kernels):.0f} registers")
        print("\n".join(f"{target}: {w}" for w in wrong), end="\n" if wrong else "")
        passed += not wrong
        failed += bool(wrong)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main())
