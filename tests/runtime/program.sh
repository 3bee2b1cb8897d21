#!/bin/sh
# The program around a model: options, files, exit codes, size; the same on each kind of device.
. tests/cmd/lib
cc=${CC:-cc} rt=$TCC_BUILD/lib/libtcc_rt.a

# build NAME FLAGS...
build() {
	out=$t/$1
	shift
	$cc -std=gnu11 -Os -I. -o "$out" tests/runtime/program.c "$@" "$rt" -Wl,--gc-sections -s \
		-pthread -lm
}

build cpu
size=$(wc -c <"$t/cpu")
[ "$size" -lt 100000 ] || fail "a program of $size bytes around no code at all"
p=$t/cpu
expect 0 'input' "$p" --help
expect 0 'x  *float32\[N,4\]' "$p" --info
expect 0 '"symbol\|"N"' "$p" --info --json
expect 2 "unknown option '--inputs'" "$p" --inputs
expect 2 'needs NAME=FILE' "$p" --input
expect 2 'takes no value' "$p" --info=1
expect 2 'not a number' "$p" --threads x
expect 2 "no input 'z'; it has x, i, b" "$p" --input z=x.npy
expect 2 'must end in' "$p" --input x=x.dat
expect 3 'No such file' "$p" --input x=none.npy
expect 5 "not for 'cuda'" "$p" --device cuda --bench
expect 6 "'x' is missing" "$p"
printf '1 2 3 4\n5 6 7 8' >"$t/x.txt"
printf '1\n11' >"$t/i.txt"
printf '1\n12' >"$t/bad.txt"
expect 0 't: float32\[2\]: 10 110' "$p" --input x="$t/x.txt" --input "i=$t/i.txt"
expect 0 'y: float32\[2,4\]: 2 4 6 8 6 8 10 12' "$p" --input x="$t/x.txt" --input="i=$t/i.txt"
expect 6 "node 'pick' (Gather): an index is out of range" "$p" --input x="$t/x.txt" \
	--input "i=$t/bad.txt"
expect 6 'elements of type\|not what the input' "$p" --input x="$t/i.txt" --input i="$t/i.txt"
expect 0 median_ms "$p" --bench --iters 20 --threads 2
expect 0 '"p99_ms": ' "$p" --bench --iters 20 --json
expect 0 'relu (relu)' "$p" --profile --iters 3
"$p" --input x="$t/x.txt" --input "i=$t/i.txt" --output-dir "$t/dir" --output "y=$t/y.npz" \
	--output "s=$t/y.npz" --output "t=$t/t.pb" --json="$t/run.json"

if [ -x "$py" ]; then
	"$py" - "$p" "$t" <<'PY'
import json, subprocess, sys
import numpy as np
prog, t = sys.argv[1:]
y = np.array([[2, 4, 6, 8], [6, 8, 10, 12]], np.float32)
assert (np.load(f"{t}/dir/output_0.npy") == y).all()
z = np.load(f"{t}/y.npz")
assert (z["y"] == y).all() and (z["s"] == y.sum(1)).all() and len(z.files) == 2
assert json.load(open(f"{t}/run.json"))["outputs"][1]["shape"] == [2]
info = json.loads(subprocess.check_output([prog, "--info", "--json"]))
assert info["inputs"][0]["shape"] == ["N", 4]
r = np.random.default_rng(1)
for save in (np.savez, np.savez_compressed):
    x = r.integers(-3, 3, (500, 4)).astype(np.float32)
    save(f"{t}/in.npz", x=np.asfortranarray(x), i=np.arange(12), unused=np.zeros((3, 3)))
    subprocess.check_call([prog, "--input", f"{t}/in.npz", "--output", f"y={t}/o.npy"])
    assert (np.load(f"{t}/o.npy") == np.maximum(x + [1, 2, 3, 4], 0)).all()
PY
fi

# no driver here, then one of our own
for kind in CUDA HIP; do
	[ $kind = CUDA ] && name=cuda lib=libcuda.so.1 def=CUDA || name=hip lib=libamdhip64.so.6 def=HIP
	build $name -DIMAGE_KIND=TCC_IMAGE_$kind '-DIMAGE="kernels"' -Wl,-u,tcc_device_$name -ldl
	build bad_$name -DIMAGE_KIND=TCC_IMAGE_$kind '-DIMAGE="other"' -Wl,-u,tcc_device_$name -ldl
	p=$t/$name
	expect 0 'float32' "$p" --info
	"$p" --bench >"$t/out" 2>&1 && fail "$name without a driver" || [ $? = 5 ]
	mkdir -p "$t/lib_$name"
	$cc -shared -fPIC -O1 -D$def -o "$t/lib_$name/$lib" tests/runtime/fake_driver.c
	LD_LIBRARY_PATH=$t/lib_$name FAKE_DRIVER_LOG=$t/log
	export LD_LIBRARY_PATH FAKE_DRIVER_LOG
	expect 0 't: float32\[2\]: 10 110' "$p" --input x="$t/x.txt" --input "i=$t/i.txt"
	given_back='blocks 0 streams 0 modules 0 contexts 0'
	grep -q "$given_back graphs 0 replays 0 pinned 0 events 0" "$t/log" || fail "$(cat "$t/log")"
	# the weights and all inputs; all outputs and the error words
	grep -q 'uploads 2 downloads 1 ' "$t/log" || fail "$(cat "$t/log")"
	expect 6 "node 'pick' (Gather)" "$p" --input x="$t/x.txt" --input "i=$t/bad.txt"
	expect 0 h2d_ms "$p" --bench --iters 5 --warmup 0
	# the first run is issued, the second recorded, and this and the others are replayed
	grep -q "$given_back graphs 0 replays 5 pinned 0 events 0" "$t/log" || fail "$(cat "$t/log")"
	# pick runs beside the others
	grep -q 'lanes 2' "$t/log" || fail "$(cat "$t/log")"
	[ $name = hip ] || grep -q 'early [1-9]' "$t/log" || fail "$(cat "$t/log")"
	FAKE_DRIVER_VERSION=12020 expect 0 h2d_ms "$p" --bench --iters 5 --warmup 0
	grep -q 'early 0' "$t/log" || fail "$(cat "$t/log")"
	FAKE_DRIVER_NO_GRAPHS=1 expect 0 h2d_ms "$p" --bench --iters 5
	grep -q 'graphs 0 replays 0' "$t/log" || fail "$(cat "$t/log")"
	expect 5 'no .* device 1; the driver finds 1' "$p" --bench --device $name:1
	[ $name = cuda ] && device='Fake, sm_86, driver for CUDA 12.4' || device='Fake, driver for HIP 6.4'
	expect 5 "the device ($device) cannot run" "$t/bad_$name" --bench
	FAKE_DRIVER_BROKEN=1 expect 5 'finds no device: no device' "$p" --bench
	FAKE_DRIVER_FAIL=memory expect 7 "$kind: no memory for .* bytes on the device: fake error" "$p" --bench
	FAKE_DRIVER_FAIL=launch expect 5 "$kind: add failed: fake error (701)" "$p" --bench
	FAKE_DRIVER_FAIL=run expect 5 "$kind: .* failed: fake error (719)" "$p" --bench
	if [ $name = cuda ]; then
		$cc -std=gnu11 -Os -I. -o "$t/device" tests/runtime/device.c "$rt" -Wl,-u,tcc_device_cuda -Wl,--gc-sections \
			-pthread -lm -ldl
		expect 0 '' "$t/device"
		# two times the weights; i is the only input on the host; t and the error words are all that comes back
		grep -q "blocks 0 streams 0 modules 0 contexts 0 graphs 0 replays 3" "$t/log" || fail "$(cat "$t/log")"
	fi
	[ $name = cuda ] && call=cuLaunchKernel || call=hipModuleLaunchKernel
	mkdir -p "$t/old_$name"
	$cc -shared -fPIC -O1 -D$def -D$call=older -o "$t/old_$name/$lib" tests/runtime/fake_driver.c
	LD_LIBRARY_PATH=$t/old_$name expect 5 "the $kind driver is too old: it has no $call" "$p" --bench
	[ $name = cuda ] || FAKE_DRIVER_GFX=gfx906:xnack- expect 5 'the device (Fake, gfx906, .*) cannot run' "$p" --bench
	[ $name = hip ] || FAKE_DRIVER_CC=70 expect 5 'the device (Fake, sm_70, .*) cannot run' "$p" --bench
	unset LD_LIBRARY_PATH
done

# the simulator
command -v clang-22 >/dev/null || { echo "clang-22 is missing: no simulator"; exit 77; }
object() {
	clang-22 -x c -std=gnu11 -I. -DTCC_SIM -Dtcc_warp=32 -fPIC -shared -ffp-contract=off \
		-fno-math-errno -w -O1 -gline-tables-only -gdwarf-4 -fsanitize=thread -fno-builtin \
		-fno-vectorize -fno-slp-vectorize -fno-unroll-loops -mllvm \
		-tsan-instrument-func-entry-exit=0 -mllvm -tsan-instrument-read-before-write=1 \
		-o "$@" tests/runtime/kernels.cu
}
object "$t/good.so"
object "$t/planted.so" -DPLANT_BUG
for k in good planted; do
	build $k -DIMAGE_KIND=TCC_IMAGE_SIM "-DIMAGE=\"$t/$k.so\"" -Wl,-u,tcc_device_sim -rdynamic -ldl
done
# weights that are not there yet would be read undefined
build lazy -DON_DEMAND -DIMAGE_KIND=TCC_IMAGE_SIM "-DIMAGE=\"$t/good.so\"" -Wl,-u,tcc_device_sim -rdynamic -ldl
expect 0 't: float32\[2\]: 10 110' "$t/lazy" --input x="$t/x.txt" --input "i=$t/i.txt"
expect 0 't: float32\[2\]: 10 110' "$t/good" --input x="$t/x.txt" --input "i=$t/i.txt"
expect 6 "node 'pick' (Gather)" "$t/good" --input x="$t/x.txt" --input "i=$t/bad.txt"
expect 0 h2d_ms "$t/good" --bench --iters 5
expect 70 'bounds' "$t/planted" --input x="$t/x.txt" --input "i=$t/i.txt"
