# What is promised of an executable: the same bytes in any folder, the C library only, small code.
. tests/cmd/lib
for d in one two/deeper; do
	mkdir -p "$t/$d"
	cp models/digits.onnx "$t/$d/model.onnx"
	(cd "$t/$d" && "$tcc" compile model.onnx -o model)
done
exe=$t/one/model
cmp "$exe" "$t/two/deeper/model" || fail "bytes depend on the folder"

extra=$(ldd "$exe" | grep -vE 'linux-vdso|libc\.so|libm\.so|libpthread|libdl|ld-linux' || true)
[ -z "$extra" ] || fail "needs more than libc and libm: $extra"

weights=$(sh -c "$tcc inspect models/digits.onnx --json" |
	sed -n 's/.*"weight_bytes": *\([0-9]*\).*/\1/p' | head -n 1)
[ -n "$weights" ] || fail "inspect --json says no weight_bytes"
code=$(($(wc -c <"$exe") - weights))
[ $code -lt 102400 ] || fail "$code bytes without its weights"

# a second run of the compiler, and a mapped weights file, give the same answers
"$tcc" compile models/digits.onnx --weights file -o "$t/mapped"
[ -f "$t/mapped.weights" ] || fail "no weights file"
for p in "$exe" "$t/mapped"; do
	"$p" --input picture=models/digits/5.pgm --output-dir "$t/out.$(basename "$p")"
done
cmp "$t/out.model/output_0.npy" "$t/out.mapped/output_0.npy"
