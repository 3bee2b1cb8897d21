# Operator tests for aarch64 and riscv64 (vectors of 128 and 256 bits) under qemu; COUNT: how many.
py=build/venv/bin/python
list=tests/backend/native.txt
for need in qemu-aarch64 qemu-riscv64 aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc; do
	command -v $need >/dev/null || { echo "no $need"; exit 77; }
done
[ -x $py ] && [ -d build/backend/node ] && [ -s $list ] || { echo "no tests: run make deps"; exit 77; }
exec $py tests/codegen/cross.py --tcc "${TCC_BUILD:-build}/tcc-ml" --jobs "${TCC_JOBS:-2}" \
	--count "${COUNT:-12}" $list build/backend
