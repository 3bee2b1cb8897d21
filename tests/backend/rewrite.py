#!/usr/bin/env python3
"""Rewrites the official tests so that a compiler has less to lean on. Data and tolerances stay.

usage: rewrite.py MODE TESTS OUT
  undeclared   no declared shape of an intermediate value or an output
  symbolic     the same, and each dimension of an input is a symbol of its own, but for the lengths of
               vectors that settle ranks and axes (shape, axes, sizes ...)
  free         the same, those lengths too
A test is left out where the rewrite changes nothing, or where it alone says what it is about.
"""
import glob
import os
import shutil
import sys

import onnx
from onnx import AttributeProto

# inputs of these names, of a node or of the model, keep their length
VECTORS = {"axes", "shape", "size", "sizes", "scales", "roi", "pads", "starts", "ends", "steps", "repeats", "split",
           "output_shape", "image_shape", "block_shape", "target_shape"}


def forget(t):
    """Removes the shapes in a type."""
    kind = t.WhichOneof("value")
    if kind == "tensor_type":
        t.tensor_type.ClearField("shape")
    elif kind in ("sequence_type", "optional_type"):
        forget(getattr(t, kind).elem_type)


def undeclare(graph, inner=False):
    del graph.value_info[:]
    for v in [*graph.output, *(graph.input if inner else ())]:
        forget(v.type)
    for node in graph.node:
        for a in node.attribute:
            for g in ([a.g] if a.type == AttributeProto.GRAPH else a.graphs):
                undeclare(g, True)


def formals(node, versions):
    """(actual name, formal name) of a node's inputs."""
    try:
        schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
    except Exception:
        return []
    return zip(node.input, (i.name for i in schema.inputs))


def vectors(model):
    """The names of the inputs that keep their lengths."""
    versions = {o.domain: o.version for o in model.opset_import}
    versions.setdefault("", versions.get("ai.onnx", 1))
    graph = model.graph
    names = {i.name for i in graph.input if i.name in VECTORS}
    for node in graph.node:
        names |= {a for a, f in formals(node, versions) if f in VECTORS or node.op_type == "ConstantOfShape"}
    return names


def symbolic(t, prefix):
    kind = t.WhichOneof("value")
    if kind == "tensor_type":
        for i, d in enumerate(t.tensor_type.shape.dim):
            d.dim_param = f"{prefix}_{i}"
    elif kind in ("sequence_type", "optional_type"):
        symbolic(getattr(t, kind).elem_type, prefix)


def rewrite(model, mode):
    undeclare(model.graph)
    if mode != "undeclared":
        keep = (vectors(model) if mode == "symbolic" else set()) | {w.name for w in model.graph.initializer}
        for i in model.graph.input:
            t = i.type.tensor_type
            if i.name not in keep or len(t.shape.dim) != 1:
                symbolic(i.type, i.name)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("undeclared", "symbolic", "free"):
        sys.exit(__doc__)
    mode, tests, out = sys.argv[1:]
    count = 0
    for path in sorted(glob.glob(f"{tests}/*/test_*/model.onnx")):
        model = onnx.load(path, load_external_data=False)
        before = model.SerializeToString(deterministic=True)
        rewrite(model, mode)
        after = model.SerializeToString(deterministic=True)
        if after == before:
            continue
        src = os.path.dirname(path)
        dst = f"{out}/{os.path.relpath(src, tests)}"
        os.makedirs(dst, exist_ok=True)
        with open(f"{dst}/model.onnx", "wb") as f:
            f.write(after)
        for rest in os.listdir(src):
            if rest != "model.onnx" and not os.path.lexists(f"{dst}/{rest}"):
                os.symlink(os.path.realpath(f"{src}/{rest}"), f"{dst}/{rest}")
        count += 1
    print(f"{count} tests in {out}")


if __name__ == "__main__":
    main()
