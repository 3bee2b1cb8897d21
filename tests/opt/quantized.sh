#!/bin/sh
# Models in QDQ form: sums of dequantized bytes become integer sums where the machine is fast at them,
# with zero points on either side, padding, scales for each channel, a value that others read as well.
. tests/cmd/lib
numbers() { awk -v n="$1" -v lo="$2" -v hi="$3" 'BEGIN { srand(n); for (i = 0; i < n; i++) printf "%s%d", i ? ", " : "", lo + int(rand() * (hi - lo + 1)) }'; }

cat >"$t/qdq.ir" <<IR
module "qdq" graph

sym n : 0..2147483647 = dim(%x, 0)
func main(%x: f32[n, 8, 9, 9]) {
	%0 = const f32[] {0.04}
	%1 = const u8[] {117}
	%2 = quantize_linear %x, %0, %1 : u8[n, 8, 9, 9]
	%3 = dequantize_linear %2, %0, %1 : f32[n, 8, 9, 9]
	%4 = const i8[16, 8, 3, 3] {$(numbers 1152 -128 127)}
	%5 = const f32[16] {0.01, 0.02, 0.03, 0.01, 0.02, 0.03, 0.01, 0.02, 0.03, 0.01, 0.02, 0.03, 0.01, 0.02, 0.03, 0.04}
	%6 = const i8[16] {$(numbers 16 -5 5)}
	%7 = dequantize_linear %4, %5, %6 {axis = 0} : f32[16, 8, 3, 3]
	%8 = conv %3, %7 {pads = [1, 1, 1, 1]} : f32[n, 16, 9, 9]
	%9 = const f32[] {0.5}
	%10 = quantize_linear %8, %9 : u8[n, 16, 9, 9]
	%11 = dequantize_linear %10, %9 : f32[n, 16, 9, 9]
	%12 = const u8[6, 16, 1, 1] {$(numbers 96 0 255)}
	%13 = const u8[] {128}
	%14 = dequantize_linear %12, %0, %13 : f32[6, 16, 1, 1]
	%15 = conv %11, %14 {strides = [2, 2]} : f32[n, 6, 5, 5]
	%16 = relu %11 : f32[n, 16, 9, 9]
	return "y" = %15, "z" = %16
}
IR
"$tcc" opt "$t/qdq.ir" --stop-after quantized --target icelake-server >"$t/out.ir" || exit 1
[ "$(grep -c 'sum(.*i32(.*\* i32(' "$t/out.ir")" = 2 ] || fail "not all sums are integers"
grep -q '^ledger "quantized_sum" "real"' "$t/out.ir" || fail "not in the precision ledger"
"$tcc" opt "$t/qdq.ir" --stop-after quantized --target icelake-server --strict | grep -q 'sum(.*i32(.*\* i32(' &&
	fail "not exact, but done with --strict"
"$tcc" verify "$t/qdq.ir" --rtol 1e-5 --atol 1e-4 || fail "as the machine has it: wrong"
sed 's/ target "[^"]*"/ target "x86-64-v2"/; s/ host "[^"]*"/ host "x86-64-v2"/' "$t/out.ir" >"$t/plain.ir"
"$tcc" verify "$t/plain.ir" --target x86-64-v2 --rtol 1e-5 --atol 1e-4 || fail "as plain integers: wrong"
