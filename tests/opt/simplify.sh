# Rewrite rules: applied, listed in the precision ledger, off with --strict and without the pass.
. tests/cmd/lib
cat >"$t/m.ir" <<'IR'
module "m" graph

func main(%x: f32[4, 3]) {
	%0 = const f32[] {3.0}
	%1 = div %x, %0 : f32[4, 3]  loc("third", Div, 0)
	%2 = neg %1 : f32[4, 3]  loc("minus", Neg, 1)
	%3 = neg %2 : f32[4, 3]  loc("plus", Neg, 2)
	return "y" = %3
}
IR
"$tcc" opt "$t/m.ir" --passes=simplify >"$t/out"
grep -q '^ledger "div_const" "real" .* loc("third", Div, 0)' "$t/out" || fail "no ledger: $(cat "$t/out")"
! grep -Eq '= (div|neg) ' "$t/out" || fail "not simplified: $(cat "$t/out")"
"$tcc" opt "$t/out" --passes=simplify | cmp - "$t/out" || fail "a second run changes the text"
"$tcc" opt "$t/m.ir" --passes=simplify --strict >"$t/out"
grep -q '= div ' "$t/out" || fail "--strict allows real rules"
! grep -Eq 'ledger|= neg ' "$t/out" || fail "--strict forbids exact rules"
"$tcc" opt "$t/m.ir" --disable-pass simplify --stop-after lower >"$t/out"
! grep -q 'ledger' "$t/out" || fail "--disable-pass does not leave it out"
expect 0 'div_const (real): third, error' "$tcc" inspect "$t/m.ir"
expect 0 'precision *exact' "$tcc" inspect "$t/m.ir" --strict
expect 0 'neg_neg *exact -(-x) -> x' "$tcc" passes -v

# what is one of its operands by its definition, and the branch that is taken
cat >"$t/f.ir" <<'IR'
module "f" graph

func main(%x: f32[4, 3]) {
	%0 = const bool[] {true}
	%1 = identity %x : f32[4, 3]
	%2 = cast %1 {to = 1} : f32[4, 3]
	%3 = op.if %0 : (f32[4, 3]) {
		then_branch () {
			%4 = neg %2 : f32[4, 3]
			yield %4
		}
		else_branch () {
			%5 = exp %2 : f32[4, 3]
			yield %5
		}
	}
	%6 = neg %3.0 : f32[4, 3]
	return "y" = %6
}
IR
"$tcc" opt "$t/f.ir" --passes=simplify >"$t/out"
grep -q '"y" = %x' "$t/out" || fail "not the operand: $(cat "$t/out")"
