# Real models under qemu, each compiled once for a machine; CORPUS: see tests/corpus/compare.py.
models=tcn_superres_espcn,magika_v3_3,silero_vad
for need in qemu-aarch64 qemu-riscv64 aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc; do
	command -v $need >/dev/null || { echo "no $need"; exit 77; }
done
[ -f "${CORPUS-}/index.tsv" ] || { echo "no real models: set CORPUS to a folder of them"; exit 77; }
one() {
	build/venv/bin/python tests/corpus/compare.py --tcc "${TCC_BUILD:-build}/tcc-ml" --mode exe \
		--corpus "$CORPUS" --models "${MODELS:-$CORPUS/models}" --only $models --target "$1" \
		"--under=$2" || code=1
}
code=0
one aarch64 "qemu-aarch64 -L /usr/aarch64-linux-gnu"
for bits in 128 256; do
	one riscv64+v \
		"qemu-riscv64 -L /usr/riscv64-linux-gnu -cpu rv64,v=true,vext_spec=v1.0,vlen=$bits"
done
exit $code
