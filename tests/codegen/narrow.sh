#!/bin/sh
# Casts between narrow floats and every other type, and functions of them: each way through f32 once.
tcc=${TCC_BUILD:-build}/tcc-ml t=$TCC_TMP n=0 lines= results=
add() {
	lines="$lines
	%$n = tensor (i: n) $1 { $2 }"
	results="$results${results:+, }\"o$n\" = %$n"
	n=$((n + 1))
}

for a in f16 bf16 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz; do
	for b in f64 f32 f16 bf16 f8e4m3fn f8e5m2 i64 i32 i8 bool; do
		add $b "$b($a(%x[i]))"
	done
	add f32 "sin(f32($a(%x[i])))"
	add f32 "f32(sin(f64($a(%x[i]))))"
	add $a "$a(f64(%x[i]) * 3.0f64)"
done
cat >"$t/narrow.ir" <<IR
module "narrow" tensor

sym n : 0..2147483647 = dim(%x, 0)
func main(%x: f32[n]) {$lines
	return $results
}
IR
exec "$tcc" verify "$t/narrow.ir" "$@"
