#!/bin/sh
# Each operator compiles in each type its schema allows (optypes.py), but for those listed here.
set -u
. tests/cases
t=${TCC_TMP:-build/tests}/types
rm -rf "$t" && mkdir -p "$t/models"
$py tests/ops/contrib.py "$t/a" >/dev/null && $py tests/ops2/oracle.py "$t/b" >/dev/null || exit 1
$py tests/slow/optypes.py "$t/models" build/backend/*/* "$t"/a/* "$t"/b/* || exit 1
# operator, constraint and types, and why not
cat >"$t/refused" <<EOM
BitCast-                                             the template's other type has another width
(Cast|DequantizeLinear|OptionalGetElement|QuantizeLinear)-.*-float6  no float6 yet
(GridSample|Resize)-T1-(bool|string|complex)         not interpolated; nearest is
Col2Im-T-(bool|string|complex)                       not summed
(NonZero|Unique)-T-complex                           not compared
(ai_onnx_mlImputer|ai_onnx_mlLabelEncoder|ai_onnx_mlOneHotEncoder|TfIdfVectorizer)-  attributes say the type
com_microsoft(Unique-T-complex|FusedGemm-T-u?int)    without a kernel anywhere
com_microsoftGridSample-T1-(u?int|bool|string|complex)  the grid has the type as well
com_microsoftGroupQueryAttention-T_CACHE-(u?int8|b?float)  a quantized cache needs scales, another has none
com_microsoftQLinearConcat-TV-                       the types of a triple differ
EOM
sed 's/  .*//; s/^/^/; s/ *$//' "$t/refused" >"$t/patterns"
failed=0 passed=0
for f in "$t"/models/*; do
	n=$(basename "$f" .onnx)
	if "$tcc" check -q "$f" >"$t/log" 2>&1; then
		passed=$((passed + 1))
	elif ! echo "$n" | grep -qEf "$t/patterns" || ! grep -qE "^[^:]*: (error|note)" "$t/log"; then
		failed=$((failed + 1))
		echo "$n: $(head -n 1 "$t/log")"
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ] && [ $passed -gt 1900 ]
