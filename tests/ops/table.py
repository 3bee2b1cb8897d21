"""The README's table of operators from `tcc-ml ops --json`, and whether the targets that it states hold.
usage: table.py TCC-ML README [--write] | table.py TCC-ML --hosts CASE..."""
import json
import subprocess
import sys

tcc = sys.argv[1]
ops = json.loads(subprocess.check_output([tcc, "ops", "--json"]))["operators"]
KINDS = ("elementwise", "composed", "index", "structured", "host")
BEGIN, END = "<!-- tests/ops/table.sh --write -->\n", "<!-- end -->\n"


def domain(op):
    return op["onnx"].rpartition(":")[0] or "ai.onnx"


def table():
    lines = ["| domain | operators | " + " | ".join(KINDS) + " |", "|---" + "|--:" * (1 + len(KINDS)) + "|"]
    for d in sorted({domain(o) for o in ops}):
        kinds = [o["kind"] for o in ops if domain(o) == d]
        lines.append(f"| {d} | {len(kinds)} | " + " | ".join(str(kinds.count(k)) for k in KINDS) + " |")
    return "\n".join(lines) + "\n"


def readme(path, write):
    text = open(path).read()
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    if write:
        open(path, "w").write(head + BEGIN + table() + END + tail)
    elif old != table():
        sys.exit("the README's table is not what `tcc-ml ops` says: sh tests/ops/table.sh --write")


def numbers(model):
    """Are all inputs and outputs tensors of numbers?"""
    return all(v.type.HasField("tensor_type") and v.type.tensor_type.elem_type != 8
               for v in [*model.graph.input, *model.graph.output])


def hosts(cases):
    import onnx
    kinds = {o["onnx"]: o["kind"] for o in ops}
    seen, wrong = set(), 0
    for c in cases:
        m = onnx.load(c + "/model.onnx")
        n = m.graph.node[0]
        name = (n.domain + ":" if n.domain not in ("", "ai.onnx") else "") + n.op_type
        if len(m.graph.node) > 1 or name in seen or name not in kinds or (kinds[name] != "host" and not numbers(m)):
            continue
        seen.add(name)
        r = subprocess.run([tcc, "opt", c + "/model.onnx", "--passes=lower"], capture_output=True)
        if (b' = host "' in r.stdout) > (kinds[name] == "host") or r.returncode:
            wrong += 1
            print(f"{name} is {kinds[name]}, but calls the host")
    print(f"{len(seen)} operators looked into, {wrong} wrong")
    sys.exit(wrong > 0 or len(seen) < 150)


if sys.argv[2] == "--hosts":
    hosts(sys.argv[3:])
else:
    readme(sys.argv[2], "--write" in sys.argv)
