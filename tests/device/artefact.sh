#!/bin/sh
# What is compiled for GPUs, as it starts: a driver of our own takes the real images and runs no kernel. Which
# image a device gets, how its work is launched, what is said when there is none that fits.
. tests/cmd/lib
cc=${CC:-cc}
for kind in cuda:libcuda.so.1:CUDA hip:libamdhip64.so.6:HIP; do
	IFS=: read -r name lib def <<-END
	$kind
	END
	mkdir -p "$t/idle_$name"
	$cc -shared -fPIC -O1 -D"$def" -DIDLE -o "$t/idle_$name/$lib" tests/runtime/fake_driver.c
done
export FAKE_DRIVER_LOG=$t/log

# logged PATTERN: in what the driver has counted
logged() {
	grep -q -- "$1" "$t/log" || fail "no '$1' in: $(cat "$t/log")"
}
gone='blocks 0 streams 0 modules 0 contexts 0 graphs 0'

rc=0
"$tcc" compile "$digits" --target sm_80 --target sm_90 -o "$t/cuda" >"$t/out" 2>&1 || rc=$?
[ $rc = 5 ] && grep -q NVRTC "$t/out" && { echo "no NVRTC: $(head -1 "$t/out")"; exit 77; }
[ $rc = 0 ] || fail "$(cat "$t/out")"
export LD_LIBRARY_PATH=$t/idle_cuda
expect 0 '^images:  sm_90, sm_80, compute_80$' "$t/cuda" --info
for cc in 80 86 90; do
	FAKE_DRIVER_CC=$cc expect 0 median_ms "$t/cuda" --bench --iters 4
	logged "$gone replays [1-9]"
	logged 'image code'
	[ $cc = 90 ] && logged 'early [1-9]' || logged 'early 0'
done
FAKE_DRIVER_CC=89 expect 0 median_ms "$t/cuda" --bench --iters 4
# another major version: PTX for the driver to compile, of the lowest machine or the nearest
FAKE_DRIVER_CC=120 expect 0 median_ms "$t/cuda" --bench --iters 4
logged 'image PTX'
FAKE_DRIVER_CC=75 expect 5 "(Fake, sm_75, driver for CUDA 12.4) cannot run .*: sm_90, sm_80, compute_80, made for a driver of CUDA" \
	"$t/cuda" --bench
grep -q 'compile with its --target' "$t/out" || fail "$(cat "$t/out")"
FAKE_DRIVER_CC=80 FAKE_DRIVER_FAIL=image FAKE_DRIVER_VERSION=11000 expect 5 'driver says: fake error; renew the driver' \
	"$t/cuda" --bench

"$tcc" compile "$digits" --target gfx942 --target gfx1100 -o "$t/hip" >"$t/out" 2>&1 || fail "$(cat "$t/out")"
export LD_LIBRARY_PATH=$t/idle_hip
for gfx in gfx942:sramecc+:xnack- gfx1100; do
	FAKE_DRIVER_GFX=$gfx expect 0 median_ms "$t/hip" --bench --iters 4
	logged "$gone replays [1-9]"
done
FAKE_DRIVER_GFX=gfx1030 expect 5 '(Fake, gfx1030, driver for HIP 6.4) cannot run .*: gfx942, gfx1100;' "$t/hip" --bench

# what is left to the host is said, when compiling and when profiling
node=build/backend/node
[ -d $node ] || exit 0
expect 0 'sm_80: the host waits for the device at 1 place$' \
	"$tcc" compile $node/test_nonzero_example/model.onnx --target sm_80 -o "$t/x"
expect 0 'copied for routines of the host: str_parts, str_split$' \
	"$tcc" compile $node/test_string_split_basic/model.onnx --target sm_80 -o "$t/x"
"$tcc" compile "$digits" --target sm_80 -o "$t/x" >"$t/out" 2>&1
grep -q host "$t/out" && fail "$(cat "$t/out")"
expect 0 '"host_waits": *1' "$tcc" compile $node/test_nonzero_example/model.onnx --target sm_80 --json -o "$t/x"

# weights of a file, uploaded when they are used
"$tcc" compile "$digits" --target sm_80 --weights mmap -o "$t/lazy" >"$t/out" 2>&1 || fail "$(cat "$t/out")"
LD_LIBRARY_PATH=$t/idle_cuda expect 0 median_ms "$t/lazy" --bench --iters 4
logged "$gone"
