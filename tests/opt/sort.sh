#!/bin/sh
# Long rows are sorted, not counted: the positions are numpy's, with ties, NaN, both directions and sizes around
# powers of two; short rows of the same program too.
tcc=${TCC_BUILD:-build}/tcc-ml t=$TCC_TMP
build/venv/bin/python - "$tcc" "$t" <<'PY'
import subprocess
import sys
import numpy as np
from onnx import helper as h, TensorProto as T, save

tcc, t = sys.argv[1:]
rng = np.random.default_rng(3)


def check(kind, dtype, axis, largest, shapes):
    path = f"{t}/m.onnx"
    dims = ["a", "b"]
    node = h.make_node("TopK", ["x", "k"], ["y", "at"], axis=axis, largest=largest)
    save(h.make_model(h.make_graph([node], "sort", [h.make_tensor_value_info("x", kind, dims),
                                                    h.make_tensor_value_info("k", T.INT64, [1])],
                                   [h.make_tensor_value_info("y", kind, None),
                                    h.make_tensor_value_info("at", T.INT64, None)]),
                      opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    subprocess.run([tcc, "compile", path, "-o", f"{t}/exe"], check=True, stdout=subprocess.DEVNULL)
    for shape in shapes:
        x = rng.integers(-40, 40, shape).astype(dtype)
        if dtype == np.float32:
            x[rng.random(shape) < 0.1] = np.nan
            x[rng.random(shape) < 0.1] = -0.0
        k = max(1, shape[axis] * 3 // 4)
        np.save(f"{t}/x.npy", x)
        np.save(f"{t}/k.npy", np.array([k], np.int64))
        subprocess.run([f"{t}/exe", "--input", f"x={t}/x.npy", "--input", f"k={t}/k.npy",
                        "--output-dir", t], check=True, stdout=subprocess.DEVNULL)
        key = np.where(np.isnan(x), 1e9, x).astype(np.float64)
        want = np.argsort(-key if largest else key, axis=axis, kind="stable").take(range(k), axis)
        got = np.load(f"{t}/output_1.npy")
        assert np.array_equal(got, want), (kind, axis, largest, shape)
        np.testing.assert_array_equal(np.load(f"{t}/output_0.npy"), np.take_along_axis(x, want, axis))


check(T.FLOAT, np.float32, 1, 1, [(3, 511), (2, 513), (1, 1025), (2, 4096), (1, 7)])
check(T.INT64, np.int64, 0, 0, [(513, 3), (1000, 2), (5, 5), (1, 1)])
PY
