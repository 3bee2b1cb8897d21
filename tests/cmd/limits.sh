# Limits end a compilation with code 7 and say where it was; --freeze and --dim change the interface.
. tests/cmd/lib
expect 7 'over 1 bytes\|bytes of memory' "$tcc" compile models/tongue.onnx --max-compile-memory 1M -o "$t/x"
[ ! -e "$t/x" ] || fail "an artefact in spite of the limit"
expect 0 '' "$tcc" compile "$digits" --max-compile-time 300 --max-compile-memory 8G -o "$t/ok"
expect 0 '' "$tcc" compile "$digits" --dim batch=2 --max-arena 64M -o "$t/ok"
expect 0 'uint8\[2,1,28,28\]' "$t/ok" --info
expect 0 'uint8\[2,1,28,28\]' "$tcc" inspect "$digits" --shape picture=2x1x28x28
[ -x "$py" ] || exit 0
"$py" -c "import numpy as np, sys; np.save(sys.argv[1], np.zeros((1, 1, 28, 28), np.uint8))" "$t/zero.npy"
expect 0 'probabilities: float32\[1,10\]' "$tcc" run "$digits" --freeze picture="$t/zero.npy"
expect 2 "no input of this name" "$tcc" compile "$digits" --freeze z="$t/zero.npy" -o "$t/x"
expect 3 'No such file' "$tcc" compile "$digits" --freeze picture="$t/none.npy" -o "$t/x"
