#!/usr/bin/env python3
"""Writes the official ONNX backend tests as folders: OUT/<group>/<test>/model.onnx,
data.json (rtol, atol) and test_data_set_N/{input,output}_I.pb.

usage: generate.py OUT
The onnx package carries the operator tests as code; the models of group `real` are topologies
with constant weights, fed with the runner's own dummy inputs.
"""
import json
import os
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

GROUPS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")


def to_proto(value, info):
    if isinstance(value, TensorProto):
        return value
    encode = {
        "map_type": numpy_helper.from_dict,
        "sequence_type": numpy_helper.from_list,
        "optional_type": numpy_helper.from_optional,
    }.get(info.type.WhichOneof("value"))
    if encode:
        return encode(value, info.name)
    return numpy_helper.from_array(np.asarray(value), info.name)


def write(path, proto):
    with open(path, "wb") as f:
        f.write(proto.SerializeToString())


def write_data(folder, kind, values, infos):
    for i, (value, info) in enumerate(zip(values, infos)):
        write(f"{folder}/{kind}_{i}.pb", to_proto(value, info))


def node(case, folder):
    write(f"{folder}/model.onnx", case.model)
    graph = case.model.graph
    for n, (inputs, outputs) in enumerate(case.data_sets):
        data = f"{folder}/test_data_set_{n}"
        os.makedirs(data)
        write_data(data, "input", inputs, graph.input)
        write_data(data, "output", outputs, graph.output)


def stored(case, folder):
    shutil.copytree(case.model_dir, folder, dirs_exist_ok=True)


def real(case, folder):
    path = os.path.join(os.path.dirname(onnx.__file__), "..", case.url)
    shutil.copy(path, f"{folder}/model.onnx")
    graph = onnx.load(path).graph
    weights = {w.name for w in graph.initializer}
    inputs = [i for i in graph.input if i.name not in weights]
    data = f"{folder}/test_data_set_0"
    os.makedirs(data)
    dummies = [Runner.generate_dummy_data(i, seed=0, name=case.model_name, random=False)
               for i in inputs]
    write_data(data, "input", dummies, inputs)
    for i in range(len(graph.output)):
        shutil.copy(f"{path[:-5]}_output_{i}.pb", f"{data}/output_{i}.pb")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    out = sys.argv[1]
    count = 0
    for group in GROUPS:
        lay = {"node": node, "real": real}.get(group, stored)
        for case in load_model_tests(kind=group):
            folder = f"{out}/{group}/{case.name}"
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            lay(case, folder)
            with open(f"{folder}/data.json", "w") as f:
                json.dump({"rtol": case.rtol, "atol": case.atol}, f)
            count += 1
    print(f"{count} tests in {out}")


if __name__ == "__main__":
    main()
