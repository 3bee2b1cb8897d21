# make install puts everything that the program needs under DESTDIR: it works from another folder.
. tests/cmd/lib
${MAKE:-make} -s install DESTDIR="$t/root" prefix=/usr >"$t/log" 2>&1 || fail "$(tail -n 5 "$t/log")"
for f in lib/tcc-ml/libtcc_rt.a include/tcc-ml/abi.h share/doc/tcc-ml/LICENSE share/man/man1/tcc-ml.1 \
	share/bash-completion/completions/tcc-ml; do
	[ -s "$t/root/usr/$f" ] || fail "no $f"
done
mkdir -p "$t/elsewhere"
cp "$digits" "$picture" "$t/elsewhere"
cd "$t/elsewhere"
tcc=$t/root/usr/bin/tcc-ml
expect 0 '' "$tcc" compile digits.onnx -o out --emit exe --emit so --emit a
expect 0 '0.99' ./out --input picture=5.pgm
expect 0 '' "$tcc" compile digits.onnx --target c --emit src -o src
expect 0 '' ${MAKE:-make} -s -C src
expect 0 '0.99' src/digits --input picture=5.pgm
printf '#include <tcc-ml/abi.h>\nint main(void) { return TCC_ABI_VERSION == 0; }\n' >abi.c
expect 0 '' ${CC:-cc} -I"$t/root/usr/include" -o abi abi.c
expect 0 '' ./abi
