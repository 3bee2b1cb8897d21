#!/bin/sh
# A user's own operators: results on every kind of target, dumps that can be read again, errors.
set -u
. tests/cases
lib=tests/ops/library.ops
write_cases library tests/ops/library.py
rc=0
verify_targets "native c sm_80+--simulate" --op-library $lib --rtol 1e-3 --atol 1e-6 || rc=1
passed=0 failed=0

expect 6 'out of range' "$tcc" run "$out/wild/model.onnx" --op-library $lib --output-dir "$out/o" \
	--input x0="$out/wild/b.npy" --input x1="$out/wild/outside.npy"
expect 4 'unknown operator "Softer"' "$tcc" check "$out/soft/model.onnx"
expect 3 'No such file' "$tcc" check "$out/soft/model.onnx" --op-library "$out/none"
for m in soft_rms blur_dim_2; do
	expect 0 '' "$tcc" opt "$out/$m/model.onnx" --op-library $lib --passes= -o "$out/a.ir"
	expect 0 '' "$tcc" opt "$out/a.ir" --passes= -o "$out/b.ir"
	expect 0 '' cmp "$out/a.ir" "$out/b.ir"
done
# wrong CODE TEXT DECLARATION
wrong() {
	echo "$3" >"$out/bad"
	expect "$1" "$2" "$tcc" check "$out/soft/model.onnx" --op-library "$out/bad"
}
soft='operator "my.domain:Softer" 1 (x: f32) {alpha: float = 1} -> z'
wrong 3 'unknown name' "$soft elementwise { q / 2 }"
wrong 3 'unknown operator' "$soft composed { my_domain_Softer(x) }"
wrong 3 'is no signature' 'operator "a:B" 1 (x: float) {alpha: flot = 1} -> z elementwise { x }'
wrong 3 'is no signature' 'operator "a:B" 1 (x: float) elementwise { x }'
wrong 3 'a definition in { }' "$soft elementwise { x"
wrong 3 'elementwise, composed, tensor or function' "$soft { x }"
wrong 3 'named "domain:Name"' 'operator "B" 1 (x: float) {} -> z elementwise { x }'
wrong 3 'already' 'operator "ai.onnx:Relu" 1 (x: float) {} -> z elementwise { x }'
wrong 3 'already' "$soft elementwise { x } $soft elementwise { x }"
wrong 3 '2 indices are expected' "$soft tensor (i: x_0) f32 { %x[i] }"
wrong 3 'is negative' "$soft tensor (i: x_0 - 10, j: 1) f32 { %x[i, j] }"
echo "$passed passed, $failed failed, 0 skipped"
[ $rc = 0 ] && [ $failed = 0 ]
