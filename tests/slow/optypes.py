"""Each operator in each type that its newest schema allows: one single-node model of the folders given is
the template of an operator, an input's type constraint set to each of its types in turn.
usage: optypes.py OUT CASE..."""
import os
import re
import sys

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as ort
from onnx import TensorProto as T

out = sys.argv[1]
codes = {"float": T.FLOAT, "double": T.DOUBLE}
codes.update({n.lower(): c for n, c in T.DataType.items() if n not in ("UNDEFINED", "FLOAT", "DOUBLE")})
schemas, seen = {}, set()
for s in ort.get_all_operator_schema():
    if s.domain == "com.microsoft":
        schemas[s.domain, s.name] = ([i.typeStr for i in s.inputs], [o.typeStr for o in s.outputs], s.type_constraints)
for s in onnx.defs.get_all_schemas():
    schemas[s.domain, s.name] = ([i.type_str for i in s.inputs], [o.type_str for o in s.outputs], s.type_constraints)


def templates(folders):
    for f in folders:
        try:
            m = onnx.load(f + "/model.onnx")
        except Exception:
            continue
        g = m.graph
        if len(g.node) != 1:
            continue
        key = ("" if g.node[0].domain == "ai.onnx" else g.node[0].domain, g.node[0].op_type)
        if key in schemas and key not in seen and not any(a.HasField("g") for a in g.node[0].attribute) \
                and all(v.type.HasField("tensor_type") for v in [*g.input, *g.output]):
            seen.add(key)
            yield key, m


def retyped(m, names, results, code):
    q = onnx.ModelProto()
    q.CopyFrom(m)
    for v in q.graph.input:
        if v.name in names:
            v.type.tensor_type.elem_type = code
    for v in q.graph.output:
        if v.name in results:
            v.type.tensor_type.elem_type = code
    return q


for (domain, name), m in templates(sys.argv[2:]):
    ins, outs, constraints = schemas[domain, name]
    n = m.graph.node[0]
    held = {t.name for t in m.graph.initializer}
    for c in constraints:
        names = {x for i, x in enumerate(n.input) if x and ins[min(i, len(ins) - 1)] == c.type_param_str}
        results = {x for i, x in enumerate(n.output) if outs[min(i, len(outs) - 1)] == c.type_param_str}
        if not names or names & held:
            continue
        for text in c.allowed_type_strs:
            t = re.match(r"tensor\((.*)\)$", text)
            if t and t.group(1) in codes:
                where = f"{out}/{domain.replace('.', '_')}{name}-{c.type_param_str}-{t.group(1)}.onnx"
                onnx.save(retyped(m, names, results, codes[t.group(1)]), where)
