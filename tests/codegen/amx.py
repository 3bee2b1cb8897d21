"""Programs for a CPU with AMX, run on the emulator, against numpy (bytes, exactly) and against this machine's own
f32 program: on operands that bf16 holds and sums that f32 holds both are exact. usage: amx.py TCC FOLDER LIBRARY"""
import os
import struct
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

tcc, folder, library = sys.argv[1:]
rng = np.random.default_rng(5)
names = ("ldtilecfg sttilecfg tilerelease tilezero tileloadd tileloaddt1 tilestored tdpbf16ps tdpbssd tdpbsud "
         "tdpbusd tdpbuud").split()
types = {np.uint8: T.UINT8, np.int8: T.INT8, np.float32: T.FLOAT, np.int32: T.INT32}


with open("/proc/cpuinfo") as f:             # a CPU that has AMX executes it itself: nothing is counted
    counted = "amx_tile" not in f.read()


def environment(counts, refuse):
    if os.path.exists(counts):
        os.remove(counts)
    return dict(os.environ, LD_PRELOAD=library, AMX_EMU_COUNTS=counts, **({"AMX_EMU_REFUSE": "1"} if refuse else {}))


def model(nodes, inputs, weights, out):
    inits = [numpy_helper.from_array(v, k) for k, v in weights.items()]
    ins = [helper.make_tensor_value_info(k, types[v.dtype.type], s) for k, (v, s) in inputs.items()]
    g = helper.make_graph(nodes, "g", ins, [helper.make_tensor_value_info("y", types[out], None)], inits)
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), f"{folder}/m.onnx")


def compiled(name, *options):
    subprocess.run([tcc, "compile", f"{folder}/m.onnx", "-o", f"{folder}/{name}", *options], check=True)


def result(name, inputs, emulated=True, refuse=False, code=0):
    """The program's output, and how many of each instruction it took."""
    args = []
    for k, v in inputs.items():
        np.save(f"{folder}/{k}.npy", v)
        args += ["--input", f"{k}={folder}/{k}.npy"]
    env = environment(f"{folder}/counts", refuse) if emulated else None
    r = subprocess.run([f"{folder}/{name}", *args, "--output-dir", folder, "--threads", "2"], env=env,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert r.returncode == code, (r.returncode, r.stderr)
    if code:
        return r.stderr
    n = struct.unpack("12Q", open(f"{folder}/counts", "rb").read()) if emulated else (0,) * 12
    return np.load(f"{folder}/output_0.npy"), dict(zip(names, n))


def bytes_of(dtype, *shape):
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def exact(*shape):
    return rng.integers(-8, 9, shape).astype(np.float32) / 4


def products_of_bytes():
    dynamic = (1, 5, 16, 17, 31, 32, 33, 70)
    shapes = [((64,), 128, 96), ((37,), 84, 50), ((7,), 200, 130), ((33,), 250, 33), ((17,), 92, 16), (dynamic, 96, 64)]
    kinds = [(a, b) for a in (np.uint8, np.int8) for b in (np.uint8, np.int8)]
    for i, (rows, k, n) in enumerate(shapes):
        a, b = kinds[i % 4]
        w = bytes_of(b, k, n)
        model([helper.make_node("MatMulInteger", ["a", "w"], ["y"])],
              {"a": (np.zeros(1, a), [1, rows[0] if len(rows) == 1 else "M", k])}, {"w": w}, np.int32)
        compiled("p", "--target", "sapphirerapids")
        for m in rows:
            x = bytes_of(a, 1, m, k)
            y, n_of = result("p", {"a": x})
            assert (y == x.astype(np.int32) @ w.astype(np.int32)).all(), (m, k, n, a, b)
            dots = sum(n_of[d] for d in names[8:])
            assert dots > 0 or not counted, (m, k, n)
            if (m, k, n) == (64, 128, 96) and counted:   # 2 x 2 tiles: each product's block once, a load a product
                assert dots == 4 * 6 * 2 and n_of["tileloadd"] == dots, n_of
                assert n_of["tilestored"] == 4 * 6 and n_of["ldtilecfg"] == n_of["tilerelease"], n_of


def same_as_f32(nodes, inputs, weights, *options, at=None):
    model(nodes, {k: (v, list(v.shape)) for k, v in inputs.items()}, weights, np.float32)
    compiled("own")
    compiled("p", "--target", "sapphirerapids", "--precision", "bf16", *options)
    want, _ = result("own", inputs, emulated=False)
    got, n_of = result("p", inputs)
    assert (got == want).all(), (nodes, np.abs(got - want).max())
    assert n_of["tdpbf16ps"] > 0 or not counted, n_of
    return n_of


def products_of_halves():
    for m, k, n in ((256, 256, 256), (37, 83, 50), (7, 200, 130), (100, 250, 33), (49, 34, 16)):
        n_of = same_as_f32([helper.make_node("MatMul", ["a", "w"], ["s"]), helper.make_node("Add", ["s", "c"], ["t"]),
                            helper.make_node("Relu", ["t"], ["y"])], {"a": exact(m, k)},
                           {"w": exact(k, n), "c": exact(n)})
        if m == 256 and counted:
            assert n_of["tdpbf16ps"] == n_of["tileloadd"] == 16 * 16 * 8, n_of
    for shape, out, kernel, stride in (((1, 20, 9, 13), 40, 3, 1), ((2, 9, 14, 14), 33, 3, 2), ((1, 64, 7, 7), 32, 1, 1),
                                       ((1, 32, 8, 40), 24, 5, 1)):
        same_as_f32([helper.make_node("Conv", ["a", "w"], ["y"], strides=[stride] * 2, pads=[kernel // 2] * 4)],
                    {"a": exact(*shape)}, {"w": exact(out, shape[1], kernel, kernel)})


def products_of_inputs():
    """Both factors are packed as the program runs."""
    for m, k, n in ((64, 96, 80), (33, 41, 50)):
        same_as_f32([helper.make_node("MatMul", ["a", "w"], ["y"])], {"a": exact(m, k), "w": exact(k, n)}, {})
        a, w = bytes_of(np.uint8, m, k), bytes_of(np.int8, k, n)
        model([helper.make_node("MatMulInteger", ["a", "w"], ["y"])], {"a": (a, [m, k]), "w": (w, [k, n])}, {}, np.int32)
        compiled("p", "--target", "sapphirerapids")
        y, n_of = result("p", {"a": a, "w": w})
        assert (y == a.astype(np.int32) @ w.astype(np.int32)).all() and (n_of["tdpbusd"] > 0 or not counted), n_of


def convolutions_of_bytes():
    for shape, out, kernel, stride in (((1, 36, 9, 13), 40, 3, 1), ((2, 50, 14, 14), 33, 3, 2)):
        w, x = bytes_of(np.int8, out, shape[1], kernel, kernel), bytes_of(np.uint8, *shape)
        model([helper.make_node("ConvInteger", ["a", "w"], ["y"], strides=[stride] * 2, pads=[kernel // 2] * 4)],
              {"a": (x, list(shape))}, {"w": w}, np.int32)
        compiled("own")
        compiled("p", "--target", "sapphirerapids")
        want, _ = result("own", {"a": x}, emulated=False)
        got, n_of = result("p", {"a": x})
        assert (got == want).all() and (sum(n_of[d] for d in names[8:]) > 0 or not counted), n_of


def rows_that_are_not_known():
    w = exact(70, 96)
    model([helper.make_node("MatMul", ["a", "w"], ["y"])], {"a": (w, [1, "M", 70])}, {"w": w}, np.float32)
    compiled("p", "--target", "sapphirerapids", "--precision", "bf16")
    for m in (1, 5, 16, 31, 32, 65):
        x = exact(1, m, 70)
        y, n_of = result("p", {"a": x})
        assert (y == x @ w).all() and (n_of["tdpbf16ps"] > 0 or not counted), (m, n_of)


def what_is_told():
    """Of a product of two computed factors, why it stays; of a rounded one, its error. The text is read again."""
    model([helper.make_node("MatMul", ["a", "w"], ["s"]), helper.make_node("Transpose", ["s"], ["t"], perm=[0, 2, 1]),
           helper.make_node("MatMul", ["s", "t"], ["y"])], {"a": (np.zeros(1, np.float32), [4, 32, 64])},
          {"w": exact(64, 64)}, np.float32)
    command = [tcc, "compile", "--target", "sapphirerapids", "--precision", "bf16", "--emit", "ir", "--stage", "loop"]
    r = subprocess.run([*command, f"{folder}/m.onnx", "-o", f"{folder}/m.ir"], capture_output=True, text=True, check=True)
    assert "both their factors are computed, and" in r.stderr, r.stderr
    text = open(f"{folder}/m.ir").read()
    assert text.count('ledger "operands_bf16" "approx" 0.0078125') == text.count('ledger "stays_f32"') == 1, text
    subprocess.run([*command[:2], f"{folder}/m.ir", *command[6:], "-o", f"{folder}/n.ir"], check=True)
    assert open(f"{folder}/n.ir").read().replace("n.ir.data", "m.ir.data") == text


def where_there_is_none():
    """Without the system's permission the program says so, or has a form for less."""
    w, x = bytes_of(np.int8, 128, 64), bytes_of(np.uint8, 64, 128)
    model([helper.make_node("MatMulInteger", ["a", "w"], ["y"])], {"a": (x, [64, 128])}, {"w": w}, np.int32)
    compiled("p", "--target", "sapphirerapids")
    assert "does not permit 'amx-" in result("p", {"a": x}, refuse=True, code=5)
    compiled("p", "--target", "x86-64-v3", "--target", "x86-64-v4", "--target", "sapphirerapids")
    for refuse in (False, True):
        y, n_of = result("p", {"a": x}, refuse=refuse)
        assert (y == x.astype(np.int32) @ w.astype(np.int32)).all()
        assert (n_of["ldtilecfg"] == 0) == refuse or not counted, n_of


def needs_what_is_not_here():
    w = bytes_of(np.int8, 64, 32)
    model([helper.make_node("MatMulInteger", ["a", "w"], ["y"])], {"a": (np.zeros(1, np.uint8), [32, 64])}, {"w": w},
          np.int32)
    compiled("p", "--target", "sapphirerapids")
    np.save(f"{folder}/a.npy", bytes_of(np.uint8, 32, 64))
    r = subprocess.run([f"{folder}/p", "--input", f"a={folder}/a.npy", "--output-dir", folder],
                       env=environment(f"{folder}/counts", False), capture_output=True, text=True)
    return r.stderr if "this CPU lacks" in r.stderr else ""


if needs_what_is_not_here():
    print("AMX can be neither executed nor claimed here:", needs_what_is_not_here())
    sys.exit(77)
products_of_bytes()
products_of_halves()
products_of_inputs()
convolutions_of_bytes()
rows_that_are_not_known()
what_is_told()
where_there_is_none()
