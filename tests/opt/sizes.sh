#!/bin/sh
# A size that data decide, rewritten with the values it is counted from: what comes before it is computed
# once, a loop too.
tcc=${TCC_BUILD:-build}/tcc-ml t=$TCC_TMP
cat >"$t/sizes.ir" <<'IR'
module "sizes" graph

func main(%x: f32[3, 4]) {
	%0 = const i64[] {2}
	%1 = const bool[] {true}
	%2 = const f32[] {0.5}
	%3 = const f32[] {0.0}
	%4 = const i64[1] {-1}
	%5 = const i64[1] {0}
	%6 = cast %x {to = 1} : f32[3, 4]
	%7 = op.loop<2> %0, %1, %6 : (f32[3, 4], f32[2, 3, 4]) {
		body (%i: i64[], %v: f32[3, 4]) {
			%8 = mul %v, %2 : f32[3, 4]
			%9 = neg %8 : f32[3, 4]
			yield %1, %9, %8
		}
	}
	%10 = reshape %7.1, %4 : f32[24]
	%11 = greater %10, %3 : bool[24]
	%12 = non_zero %11 : i64[1, ?]
	%13 = squeeze %12, %5 : i64[?]
	%14 = gather %10, %13 : f32[?]
	%15 = tanh %14 : f32[?]
	%16 = reduce_sum %15, %5 {keepdims = 0} : f32[]
	return "n" = %16, "y" = %15
}
IR
"$tcc" verify "$t/sizes.ir" || exit 1
n=$("$tcc" opt "$t/sizes.ir" --stop-after lower | grep -c '= loop')
[ "$n" = 1 ] || { echo "$n loops"; exit 1; }
