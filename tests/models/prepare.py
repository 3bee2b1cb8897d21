#!/usr/bin/env python3
"""Lays the bundled models out as a corpus for tests/corpus/compare.py, with onnxruntime's outputs.

usage: prepare.py OUT
"""
import os
import shutil
import sys

import numpy as np
import onnxruntime as ort

RNG = np.random.RandomState(1)


def picture(path):
    with open(path, "rb") as f:
        return np.frombuffer(f.read()[-784:], np.uint8).reshape(1, 28, 28)


def text(*words):
    rows = [list(w.encode()) for w in words]
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, b in zip(ids, rows):
        row[:len(b)] = b
    return ids


# inputs of each model: one artefact serves all of them
CASES = {
    "digits": [{"picture": picture("models/digits/2.pgm")[None]},
               {"picture": np.stack([picture(f"models/digits/{d}.pgm") for d in range(10)])}],
    "tongue": [{"text": text("frankreich")},
               {"text": text("thụy điển", "magyarország", "suomi")}],
    "mlp": [{"pixels": RNG.rand(n, 64).astype(np.float32)} for n in (1, 33)],
    "forest": [{"wine": RNG.rand(n, 13).astype(np.float32) * 20} for n in (1, 100)],
}


def main():
    out = sys.argv[1]
    shutil.rmtree(out, ignore_errors=True)
    for name, cases in CASES.items():
        os.makedirs(f"{out}/models/{name}")
        os.makedirs(f"{out}/data/{name}")
        model = shutil.copy(f"models/{name}.onnx", f"{out}/models/{name}/model.onnx")
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        names = [x.name for x in session.get_outputs()]
        for i, inputs in enumerate(cases):
            outputs = session.run(None, inputs)
            np.savez(f"{out}/data/{name}/data_{i}.npz", in_names=list(inputs), out_names=names,
                     **{f"in_{k}": a for k, a in enumerate(inputs.values())},
                     **{f"out_{k}": a for k, a in enumerate(outputs)})
    with open(f"{out}/index.tsv", "w") as f:
        f.write("id\tfirst\tort_spread\n" + "".join(f"{n}\tyes\t0\n" for n in CASES))


if __name__ == "__main__":
    main()
