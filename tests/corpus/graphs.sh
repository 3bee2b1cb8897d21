#!/bin/sh
# Small graphs that hold what real models had trouble with, against onnxruntime.
set -u
. tests/cases
write_cases graphs tests/corpus/graphs.py
rm -rf "$out.c"
"$tcc" compile --target c --emit src -o "$out.c" "$out/long_end_of_tile/model.onnx" || exit 1
grep -q 'done1\[' "$out.c/kernels.c" || { echo "the end of the tile is written out"; exit 1; }
"$tcc" verify --target c --rtol 1e-5 --atol 1e-5 "$out/long_end_of_tile" || exit 1
verify_cases --rtol 1e-5 --atol 1e-5
