#!/usr/bin/env python3
"""Compile time against the number of nodes: chains of three kinds, it should grow with their length.

usage: chains.py [--tcc build/tcc-ml] [--nodes 1000,3000,10000,30000]
Prints seconds, seconds for a thousand nodes, and megabytes at the peak, a line a chain.
"""
import argparse
import os
import subprocess
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 16


class Chain:
    def __init__(self):
        self.nodes, self.weights, self.last = [], [], "x"
        self.rng = np.random.default_rng(1)

    def add(self, op, *more):
        inputs = [self.last, *more]
        self.last = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [self.last]))

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        value = (self.rng.standard_normal(shape) / 4).astype(np.float32)
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def save(self, path):
        value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", WIDTH])
        graph = helper.make_graph(self.nodes, "chain", [value("x")], [value(self.last)], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                    ir_version=8), path)


def elementwise(c):
    c.add("Sigmoid")
    c.add("Sin")


def products(c):
    c.add("MatMul", c.weight(WIDTH, WIDTH))


def blocks(c):
    before = c.last
    c.add("MatMul", c.weight(WIDTH, WIDTH))
    c.add("Add", c.weight(WIDTH))
    c.add("Tanh")
    c.add("Add", before)
    c.add("Softmax")


def measure(tcc, model, out):
    start = time.monotonic()
    child = subprocess.Popen([tcc, "compile", model, "-o", out])
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{model}: the compiler ended with status {status}")
    return time.monotonic() - start, usage.ru_maxrss / 1024


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tcc", default="build/tcc-ml")
    ap.add_argument("--nodes", default="1000,3000,10000,30000")
    o = ap.parse_args()
    print(f"{'chain':24} {'s':>8} {'s/1000':>8} {'MB':>8}")
    with tempfile.TemporaryDirectory() as tmp:
        for grow in (elementwise, products, blocks):
            for n in map(int, o.nodes.split(",")):
                c = Chain()
                while len(c.nodes) < n:
                    grow(c)
                c.save(f"{tmp}/chain.onnx")
                seconds, mb = measure(o.tcc, f"{tmp}/chain.onnx", f"{tmp}/chain")
                print(f"{grow.__name__ + ' ' + str(n):24} {seconds:8.2f} {seconds / n * 1000:8.3f} "
                      f"{mb:8.0f}", flush=True)


if __name__ == "__main__":
    main()
