#!/bin/sh
# A user's operators in C: results on every kind of target, in every kind of artefact; dumps; errors.
set -u
. tests/cases
lib=tests/ops/functions.ops
write_cases functions tests/ops/functions.py
rc=0 passed=0 failed=0

m=$out/sorted
mkdir "$out/b"
rm -rf "$out.refused" && mv "$out/fails" "$out.refused"
for target in native c "sm_80 --simulate" "gfx942 --simulate"; do
	echo "== $target"
	"$tcc" verify --target $target --op-library $lib "$out"/s* || rc=1
done
expect 1 'only a plain mode' "$tcc" verify --op-library $lib "$out.refused"

# right PROGRAM...: a program's results
right() {
	rm -rf "$out/o"
	expect 0 '' "$@" --input x="$m/test_data_set_0/input_0.pb" --input by="$m/test_data_set_0/input_1.pb" \
		--output-dir "$out/o"
	expect 0 '' "$py" -c '
import sys, numpy as np
from onnx import TensorProto, numpy_helper
for i in (0, 1):
    want = numpy_helper.to_array(TensorProto.FromString(open(f"{sys.argv[1]}/output_{i}.pb", "rb").read()))
    np.testing.assert_allclose(np.load(f"{sys.argv[2]}/output_{i}.npy"), want, rtol=1e-5)' \
		"$m/test_data_set_0" "$out/o"
}
compile() {
	expect 0 '' "$tcc" compile "$m/model.onnx" --op-library $lib "$@"
}
compile -o "$out/b/p"
right "$out/b/p"
compile --emit so -o "$out/b/p.so"
right "$tcc" run "$out/b/p.so"
compile --emit a -o "$out/b/p.a"
expect 0 'test_sorted' nm "$out/b/p.a"
for target in c sm_80; do
	compile --target $target --emit src -o "$out/b/$target"
	[ $target = c ] && goal=model || goal=simulated
	expect 0 '' make -s -C "$out/b/$target" $goal
	right "$out/b/$target/$goal"
done

expect 0 'runs on the host (test_sorted): M . N . 4 + 4 bytes' "$tcc" compile "$m/model.onnx" --op-library $lib --target sm_80 \
	--emit ir --stage loop -o "$out/b/g.ir"

# declarations beside an object and a shared object
cc=${CC:-cc}
mkdir "$out/b/tcc-ml" && cp runtime/abi.h "$out/b/tcc-ml/abi.h"
expect 0 '' $cc -fPIC -I"$out/b" -c tests/ops/functions.c -o "$out/b/f.o"
expect 0 '' $cc -shared -o "$out/b/f.so" "$out/b/f.o"
for f in f.o f.so; do
	sed "s/functions.c/$f/" $lib >"$out/b/own.ops"
	lib=$out/b/own.ops
	compile -o "$out/b/q"
	right "$out/b/q"
	right "$tcc" run "$m/model.onnx" --op-library "$lib"
	lib=tests/ops/functions.ops
done

# dumps of every level are read again
for stage in graph tensor loop; do
	compile --emit ir --stage $stage -o "$out/b/$stage.ir"
	expect 0 '' "$tcc" compile "$out/b/$stage.ir" -o "$out/b/d"
	right "$out/b/d"
done

# wrong CODE TEXT DECLARATION
wrong() {
	echo "operator \"my.domain:Sorted\" 1 (x: f32, by: f32?) {gain: float = 1} -> y, place $3" >"$out/b/bad"
	expect "$1" "$2" "$tcc" compile "$m/model.onnx" --op-library "$out/b/bad" -o "$out/b/w"
}
cp tests/ops/functions.c "$out/b"
wrong 3 'no such file' 'function "f" in "none.c" (i: 1) f32, (i: 1) i64'
wrong 3 'no name of a C function' 'function "f g" in "functions.c" (i: 1) f32, (i: 1) i64'
wrong 3 'has 2 results' 'function "f" in "functions.c" (i: 1) f32'
wrong 3 'shape in ( )' 'function "f" in "functions.c" f32'
wrong 5 '' 'function "missing" in "functions.c" (i: x_0, j: x_1) f32, (i: x_0, j: x_1) i64'
expect 3 'no function missing' "$tcc" run "$m/model.onnx" --op-library "$out/b/bad" \
	--input x="$m/test_data_set_0/input_0.pb" --input by="$m/test_data_set_0/input_1.pb"
echo 'int f(' >"$out/b/broken.c"
wrong 5 'broken.c' 'function "f" in "broken.c" (i: x_0, j: x_1) f32, (i: x_0, j: x_1) i64'
echo "$passed passed, $failed failed, 0 skipped"
[ $rc = 0 ] && [ $failed = 0 ]
