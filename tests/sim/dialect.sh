#!/bin/sh
# The device dialect compiles for every GPU family by its real compiler, without spills.
set -u
tmp=${TCC_TMP:-$(mktemp -d)}
src=tests/sim/kernels.c
pass=0 fail=0 skip=0

result() { # name, status
	if [ "$2" = 0 ]; then pass=$((pass + 1)); else echo "FAIL $1"; fail=$((fail + 1)); fi
}

for arch in gfx90a gfx942 gfx950 gfx1100 gfx1200; do
	if ! command -v clang-22 >/dev/null || ! command -v ld.lld-22 >/dev/null; then
		echo "SKIP $arch: clang-22 or lld-22 is missing"
		skip=$((skip + 1))
		continue
	fi
	clang-22 -x hip --cuda-device-only --no-gpu-bundle-output -O3 -ffp-contract=off -Wall -Werror \
		--offload-arch=$arch -nogpulib -nogpuinc -I. $src -o "$tmp/$arch.co" &&
		llvm-readelf-22 --notes "$tmp/$arch.co" >"$tmp/$arch.notes" &&
		grep -q 'vgpr_spill_count: *0' "$tmp/$arch.notes" &&
		! grep 'spill_count: *[1-9]' "$tmp/$arch.notes"
	result $arch $?
done

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
for arch in sm_75 sm_80 sm_90 sm_120; do
	if [ ! -x "$nvcc" ]; then
		echo "SKIP $arch: nvcc is missing"
		skip=$((skip + 1))
		continue
	fi
	"$nvcc" -x cu -cubin -arch=$arch --fmad=false -Xptxas -v -I. $src -o "$tmp/$arch.cubin" \
		>"$tmp/$arch.log" 2>&1 &&
		grep -q ' 0 bytes spill stores' "$tmp/$arch.log" &&
		! grep -E '[1-9][0-9]* bytes spill|warning' "$tmp/$arch.log"
	rc=$?
	[ $rc = 0 ] || tail -n 5 "$tmp/$arch.log"
	result $arch $rc
done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail = 0 ]
