# Malformed models are refused with a message, those whose data is malformed when they run;
# CASES: a folder of bad_*/model.onnx.
. tests/cmd/lib
[ -d "${CASES-}" ] || { echo "no malformed models: set CASES to a folder of them"; exit 77; }
for c in "$CASES"/bad_*; do
	rc=0
	"$tcc" compile "$c/model.onnx" -o "$t/out" >"$t/said" 2>&1 || rc=$?
	case $rc in
	3 | 4) grep -q 'error: ' "$t/said" && [ ! -e "$t/out" ] || fail "$c: $(cat "$t/said")" ;;
	0) expect 6 "ERROR .*$(basename "$c"): " "$tcc" verify "$c" ;;
	*) fail "$c: exit $rc: $(tail -n 5 "$t/said")" ;;
	esac
	rm -f "$t/out"
done
