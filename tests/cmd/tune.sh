# Schedules that were measured: what tune writes, how compile reads it, and what is refused.
. tests/cmd/lib
"$tcc" tune "$digits" --budget 2 --threads 1 -o "$t/digits.tuning" >"$t/said"
grep -q 'tiles differ' "$t/said" || fail "tune says: $(cat "$t/said")"
grep -q '^machine ' "$t/digits.tuning" || fail "no machine"
grep -q '^contract f32 m=14 n=32 k=144: tile=\[' "$t/digits.tuning" || fail "no line for a convolution"

# every product takes its line, and results stay
"$tcc" compile "$digits" --tuning "$t/digits.tuning" --require-tuning --emit ir -o "$t/tuned.ir"
[ "$(grep -c 'class=contract.*tuned"' "$t/tuned.ir")" = "$(grep -c 'class=contract' "$t/tuned.ir")" ] ||
	fail "kernels without their line"

# a choice by hand shows in the kernel, and every choice that is offered is right
machine=$(sed -n 's/^machine //p' "$t/digits.tuning")
lanes=$(sed -n 's/.*tile=\[[0-9]*,\([0-9]*\)\].*/\1/p' "$t/digits.tuning" | sort -n | head -n 1)
for rows in 1 3 5; do
	{
		echo "machine $machine"
		sed -n "s/^\(contract[^:]*\): .*/\1: tile=[$rows,$lanes]/p" "$t/digits.tuning"
	} >"$t/hand.tuning"
	"$tcc" verify "$digits" --timeout 300 --tuning "$t/hand.tuning" || fail "$rows rows differ"
	"$tcc" compile "$digits" --tuning "$t/hand.tuning" --emit ir -o "$t/hand.ir"
	grep -q "tile=\[$rows,$lanes\], tuned" "$t/hand.ir" || fail "$rows rows are not taken"
done

# lines for other machines are left alone
sed 's/^machine .*/machine another/' "$t/digits.tuning" >"$t/other.tuning"
"$tcc" compile "$digits" --tuning "$t/other.tuning" --emit ir -o "$t/other.ir"
! grep -q tuned "$t/other.ir" || fail "another machine's line is taken"
expect 4 'no line for machine' "$tcc" compile "$digits" --tuning "$t/other.tuning" --require-tuning -o "$t/x"
printf 'machine %s\nnonsense\n' "$machine" >"$t/bad"
expect 3 'bad:2: expected' "$tcc" compile "$digits" --tuning "$t/bad" -o "$t/x"
expect 3 'No such file' "$tcc" compile "$digits" --tuning "$t/none" -o "$t/x"
expect 2 'needs --tuning' "$tcc" compile "$digits" --require-tuning -o "$t/x"
expect 4 'is no CPU' "$tcc" tune "$digits" --target sm_80 -o "$t/x"
{
	echo "machine $machine"
	sed -n 's/^\(contract[^:]*\): .*/\1: tile=[999,7]/p' "$t/digits.tuning"
} >"$t/unfit"
"$tcc" compile "$digits" --tuning "$t/unfit" --emit ir -o "$t/x.ir" 2>"$t/said"
grep -q 'does not fit' "$t/said" || fail "a tile that does not fit is not reported"
