"""Makes a case of each node of models that matrix.py wrote. usage: split.py OUT MODEL-FOLDER..."""
import os
import shutil
import sys

import onnx

out, *folders = sys.argv[1:]
for folder in folders:
    m = onnx.load(f"{folder}/model.onnx")
    at = [{v.name: i for i, v in enumerate(part)} for part in (m.graph.input, m.graph.output)]
    for node in m.graph.node:
        one = onnx.ModelProto()
        one.CopyFrom(m)
        del one.graph.node[:], one.graph.input[:], one.graph.output[:]
        one.graph.node.append(node)
        d = f"{out}/{node.name}"
        os.makedirs(f"{d}/test_data_set_0", exist_ok=True)
        for kind, names, where, all_, part in (("input", node.input, at[0], m.graph.input, one.graph.input),
                                               ("output", node.output, at[1], m.graph.output, one.graph.output)):
            for k, i in enumerate(dict.fromkeys(where[n] for n in names if n)):
                part.append(all_[i])
                shutil.copy(f"{folder}/test_data_set_0/{kind}_{i}.pb", f"{d}/test_data_set_0/{kind}_{k}.pb")
        onnx.save(one, f"{d}/model.onnx")
        shutil.copy(f"{folder}/data.json", d)
