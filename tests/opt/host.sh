# Patterns of a routine's arguments come from texts too: one that names no operand is refused.
. tests/cmd/lib
text() {
	cat >"$t/m.ir" <<IR
module "m" tensor

func main(%x: string[3] = "x") {
	%1 = host "str_len" %x {args = "$1"} : i64[3]
	return "y" = %1
}
IR
}
many=$(printf '#1 %.0s' $(seq 300))
for bad in 'd 9' 'd q' 'd n0' 'd #' 'd R9' "d $many"; do
	text "$bad"
	expect 3 'has no argument' "$tcc" compile "$t/m.ir" --emit ir -o "$t/o.ir"
done
