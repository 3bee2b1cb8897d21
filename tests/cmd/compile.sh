# Artefacts: the same bytes in any folder, usable from C, and nothing left when it fails.
. tests/cmd/lib
for d in one two/deeper; do
	mkdir -p "$t/$d"
	cp "$digits" "$t/$d/digits.onnx"
	(cd "$t/$d" && "$tcc" compile digits.onnx -o out --emit exe --emit so --emit a --emit obj \
		--emit src --emit asm --emit llvm --emit ir)
	rm "$t/$d/digits.onnx"
done
diff -r "$t/one" "$t/two/deeper" || fail "bytes depend on the folder"
for f in out out.so out.h out.a out.o out.src/Makefile out.s out.ll out.ir; do
	[ -s "$t/one/$f" ] || fail "no $f"
done
grep -q 'digits_in_picture' "$t/one/out.h" || fail "the header has no names of the model"

# several CPUs in one artefact: the most capable is tried first, whatever the order on the command line
case $(uname -m) in
x86_64)
	"$tcc" compile "$digits" --target x86-64 --target sapphirerapids --target x86-64-v2 -o "$t/several"
	order=$("$tcc" inspect "$t/several" | awk '$1 == "target" { print $2 }' | tr '\n' ' ')
	[ "$order" = "sapphirerapids x86-64-v2 x86-64 " ] || fail "variants stand as $order"
	"$t/several" --help >/dev/null || fail "a program with variants does not start" ;;
esac

# a library and an archive, called from C through the header
cat >"$t/call.c" <<'C'
#include <stdio.h>
#include "out.h"
int main(void)
{
	static unsigned char pixels[784];
	int64_t shape[] = {1, 1, 28, 28};
	TccValue in = {.kind = TCC_TENSOR, .dtype = TCC_U8}, out = {0};
	TccInst *inst;
	TccContext *ctx;
	in.u.tensor = (TccTensor){.data = pixels, .device_type = TCC_DEV_CPU, .ndim = 4, .code = 1,
		.bits = 8, .lanes = 1, .shape = shape};
	if (digits_tcc_api.load(&digits_tcc_model, NULL, &inst) || digits_tcc_api.context_new(inst, &ctx)
	 || digits_tcc_api.run(ctx, &in, digits_in_count, &out, digits_out_count))
		return 1;
	printf("%d %.6g\n", (int)out.u.tensor.shape[1], ((float *)out.u.tensor.data)[0]);
	digits_tcc_api.context_free(ctx);
	digits_tcc_api.unload(inst);
	return 0;
}
C
${CC:-cc} -I"$t/one" -o "$t/with_so" "$t/call.c" "$t/one/out.so" -Wl,-rpath,"$t/one"
${CC:-cc} -I"$t/one" -o "$t/with_a" "$t/call.c" "$t/one/out.a" -lpthread -lm
"$t/with_so" >"$t/so.txt"
"$t/with_a" >"$t/a.txt"
grep -q '^10 [0-9]' "$t/so.txt" || fail "the library says: $(cat "$t/so.txt")"
cmp "$t/so.txt" "$t/a.txt"

# the artefact in each form says the same
expect 0 '0.99' "$tcc" run "$digits" --input picture="$picture" --threads 1
cp "$t/out" "$t/want"
for f in out out.so out.ir; do
	expect 0 '0.99' "$tcc" run "$t/one/$f" --input picture="$picture" --threads 1
	cmp "$t/out" "$t/want" || fail "$f gives other results"
done
expect 0 '"sha256"' "$tcc" inspect "$t/one/out"
expect 0 'probabilities' "$tcc" inspect "$t/one/out.so"

# options that show
"$tcc" compile "$digits" --symbol-prefix seven -o "$t/p.so" --emit so
nm -D --defined-only "$t/p.so" | grep -q ' seven_tcc_model' || fail "no symbol prefix"
"$tcc" compile "$digits" --static -o "$t/static" 2>"$t/err" || fail "$(cat "$t/err")"
file=$(LC_ALL=C ldd "$t/static" 2>&1 || true)
case $file in *"not a dynamic"* | *"statically linked"*) ;; *) fail "not static: $file" ;; esac
"$tcc" compile "$digits" --weights file -o "$t/mapped"
[ -s "$t/mapped.weights" ] || fail "no weights file"
expect 0 '0.99' "$t/mapped" --input picture="$picture"
(cd "$t" && "$tcc" compile "$digits" -q) && [ -x "$t/digits" ] || fail "no default name"

"$tcc" compile "$digits" -o "$t/serial" && "$tcc" compile "$digits" -j 4 -o "$t/parallel"
cmp "$t/serial" "$t/parallel" || fail "bytes depend on -j"

# an object for WebAssembly is one, weights included
"$tcc" compile "$digits" --target wasm32 --emit obj -o "$t/wasm.o"
wasm-ld-22 --no-entry --allow-undefined --export=digits_tcc_model "$t/wasm.o" -o "$t/wasm"
weights=$("$tcc" inspect "$digits" --json | sed -n 's/.*"weight_bytes": *\([0-9]*\).*/\1/p')
[ "$weights" -gt 0 ] && [ "$(wc -c <"$t/wasm")" -gt "$weights" ] || fail "no weights in WebAssembly"

# a device or pipe is written to, not replaced
mkfifo "$t/pipe"
cat "$t/pipe" >"$t/piped" &
timeout 60 "$tcc" compile "$digits" --emit obj -o "$t/pipe" || fail "not written to a pipe"
wait
[ -p "$t/pipe" ] && [ -s "$t/piped" ] || fail "a pipe was replaced"

# failures leave nothing
mkdir -p "$t/empty" "$t/tmp"
CC="env cc -s" expect 0 '' "$tcc" compile "$digits" -o "$t/words"
CC=false expect 5 'false' "$tcc" compile "$digits" -o "$t/empty/x"
nothing "$t/empty"
expect 7 'arena' "$tcc" compile "$digits" --dim batch=64 --max-arena 1K -o "$t/empty/x" --emit so
nothing "$t/empty"
head -c 1000 "$digits" >"$t/cut.onnx"
expect 3 'truncated\|not a complete' "$tcc" compile "$t/cut.onnx" -o "$t/empty/x"
nothing "$t/empty"
expect 2 'cannot emit' "$tcc" compile "$digits" --emit exe --emit cubin -o "$t/empty/x"
nothing "$t/empty"
TMPDIR=$t/tmp "$tcc" compile "$digits" -o "$t/empty/x"
nothing "$t/tmp"
rm "$t/empty/x"

# and so does an end by a signal, whenever it comes
for delay in 0 0.002 0.01 0.03 0.1 0.2 0.3 0.5; do
	TMPDIR=$t/tmp "$tcc" compile "$digits" -o "$t/empty/x" & pid=$!
	sleep $delay
	kill -TERM $pid 2>/dev/null || true
	wait $pid 2>/dev/null || true
	nothing "$t/tmp"
	rm -f "$t/empty/x"
	nothing "$t/empty"
done
