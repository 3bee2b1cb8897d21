# What is promised of an executable: the same bytes in any folder, the C library only, small code.
set -eu
: "${TCC_BUILD:=build}" "${TCC_TMP:=build/tests/artefact}"
top=$PWD
tcc=$top/$TCC_BUILD/tcc-ml
[ -x "$tcc" ] || { echo "no $tcc"; exit 77; }
fail() {
	echo "$*"
	exit 1
}

for d in one two/deeper; do
	mkdir -p "$TCC_TMP/$d"
	cp models/digits.onnx "$TCC_TMP/$d/model.onnx"
	(cd "$TCC_TMP/$d" && "$tcc" compile model.onnx -o model)
done
exe=$TCC_TMP/one/model
cmp "$exe" "$TCC_TMP/two/deeper/model" || fail "bytes depend on the folder"

extra=$(ldd "$exe" | grep -vE 'linux-vdso|libc\.so|libm\.so|libpthread|libdl|ld-linux' || true)
[ -z "$extra" ] || fail "needs more than libc and libm: $extra"

weights=$(sh -c "$tcc inspect models/digits.onnx --json" |
	sed -n 's/.*"weight_bytes": *\([0-9]*\).*/\1/p' | head -n 1)
[ -n "$weights" ] || fail "inspect --json says no weight_bytes"
code=$(($(wc -c <"$exe") - weights))
[ $code -lt 102400 ] || fail "$code bytes without its weights"

# a second run of the compiler, and a mapped weights file, give the same answers
"$tcc" compile models/digits.onnx --weights file -o "$TCC_TMP/mapped"
[ -f "$TCC_TMP/mapped.weights" ] || fail "no weights file"
for p in "$exe" "$TCC_TMP/mapped"; do
	"$p" --input picture=models/digits/5.pgm --output-dir "$TCC_TMP/out.$(basename "$p")"
done
cmp "$TCC_TMP/out.model/output_0.npy" "$TCC_TMP/out.mapped/output_0.npy"
