"""Follows the advice of refusals: with --shape, where it is named, the case passes; with --freeze of its value the
model is accepted. usage: advice.py TCC DIR..."""
import glob
import re
import subprocess
import sys

import onnx
from onnx import numpy_helper

tcc, folders = sys.argv[1], sys.argv[2:]
passed = failed = 0


def run(*args):
    r = subprocess.run([tcc, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return r.returncode, r.stdout


def value(file):
    t = onnx.TensorProto()
    with open(file, "rb") as f:
        t.ParseFromString(f.read())
    return numpy_helper.to_array(t)


def judge(ok, *what):
    global passed, failed
    passed, failed = passed + ok, failed + (not ok)
    if not ok:
        print(*what)


for d in folders:
    model = f"{d}/model.onnx"
    said = run("check", model)[1]
    inputs = [i.name for i in onnx.load(model).graph.input]
    data = {n: f"{d}/test_data_set_0/input_{k}.pb" for k, n in enumerate(inputs)}
    options = set(re.findall(r"--(?:shape|freeze)", said))
    names = {n for line in re.findall(r"fix .* of ('.*')", said) for n in re.findall(r"'([^']*)'", line)}
    judge(options and names and names <= set(data), d, "advice:", said)
    if "--shape" in options:
        shapes = [a for n in names for a in ("--shape", f"{n}={'x'.join(map(str, value(data[n]).shape)) or '1'}")]
        rc, text = run("verify", *shapes, d)
        judge(rc == 0, d, shapes, text)
    if "--freeze" in options:
        rc, text = run("check", model, *[a for n in names for a in ("--freeze", f"{n}={data[n]}")])
        judge(rc == 0, d, "frozen", names, text)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
