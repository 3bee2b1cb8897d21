# Real models (tests/corpus/lib) under qemu, each compiled once for a machine.
. tests/corpus/lib
for need in qemu-aarch64 qemu-riscv64 aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc; do
	command -v $need >/dev/null || skip "no $need"
done
rc=0
one() {
	compare --mode exe --timeout 1800 --only tcn_superres_espcn,magika_v3_3,silero_vad --target "$1" "--under=$2" || rc=1
}
one aarch64 "qemu-aarch64 -L /usr/aarch64-linux-gnu"
for bits in 128 256; do
	one riscv64+v \
		"qemu-riscv64 -L /usr/riscv64-linux-gnu -cpu rv64,v=true,vext_spec=v1.0,vlen=$bits"
done
exit $rc
