"""Models of the operators that functions.ops declares, with numpy's results, between ordinary nodes.
usage: functions.py OUT"""
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper, parser

out = sys.argv[-1]
rng = np.random.RandomState(3)
HEAD = '<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>\n'


def case(name, text, ins, outs):
    data = f"{out}/{name}/test_data_set_0"
    os.makedirs(data)
    onnx.save(parser.parse_model(HEAD + text), f"{out}/{name}/model.onnx")
    for kind, values in (("input", ins), ("output", outs)):
        for i, v in enumerate(values):
            with open(f"{data}/{kind}_{i}.pb", "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(v)).SerializeToString())


x, by = rng.randn(3, 5).astype(np.float32), np.array([.5], np.float32)
order = np.argsort(2 * x, 1, kind="stable")
case("sorted", """g (float[N,M] x, float[1] by) => (float[N,M] z, int64[N,M] place) {
    d = Add (x, x)  y, place = my.domain.Sorted <gain = 2.0> (d, by)  z = Relu (y) }""",
     [x, by], [np.maximum((np.sort(2 * x, 1) + by) * 2, 0), order])
case("sorted_plain", "g (float[N,M] x) => (float[N,M] y) { y = my.domain.Sorted (x) }", [x], [np.sort(x, 1)])
n = np.array([3, -4], np.int64)
case("spread", "g (int64[N] x) => (double[N,3] y) { t = Mul (x, x)  y = my.domain.Spread <list = [1, 2, 5], scales = [0.5], width = 3> (t) }",
     [n], [(n * n)[:, None] * np.array([1, 2, 5]) * .5])
case("fails", 'g (int64[N] x) => (double[N,3] y) { y = my.domain.Spread <list = [1, 2, 5], mode = "odd", scales = [0.5], width = 3> (x) }',
     [n], [np.zeros((2, 3))])
