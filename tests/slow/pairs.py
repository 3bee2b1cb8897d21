"""Lists the (operator, version) pairs of the standard that no case in the given folders contains; fails if
there is one. usage: pairs.py FOLDER..."""
import glob
import sys

import onnx

have = set()


def domain(d):
    return "" if d == "ai.onnx" else d


def walk(nodes, versions):
    for n in nodes:
        d = domain(n.domain)
        if onnx.defs.has(n.op_type, versions.get(d, 1), d):
            have.add((d, n.op_type, onnx.defs.get_schema(n.op_type, versions.get(d, 1), d).since_version))
        for a in n.attribute:
            for g in [a.g, *a.graphs]:
                walk(g.node, versions)


for path in (p for f in sys.argv[1:] for p in glob.glob(f"{f}/**/model.onnx", recursive=True)):
    m = onnx.load(path, load_external_data=False)
    for part in (m, *m.functions):
        walk(part.graph.node if part is m else part.node, {domain(o.domain): o.version for o in part.opset_import})
every = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history() if not s.deprecated}
for d, op, v in sorted(every - have):
    print(f"no case of {d or 'ai.onnx'} {op} {v}")
print(f"{len(every & have)} of {len(every)} (operator, version) pairs have a case")
sys.exit(every - have != set())
