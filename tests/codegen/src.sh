#!/bin/sh
# Folders that --emit src writes build by themselves, and their programs give what tcc-ml gives.
: "${TCC_BUILD:=build}" "${TCC_TMP:=build/tests/src}"
tcc=$TCC_BUILD/tcc-ml
[ -x "$tcc" ] || { echo "no $tcc"; exit 77; }
passed=0 failed=0 skipped=0
mkdir -p "$TCC_TMP"
model=models/digits.onnx
input=picture=models/digits/7.pgm
"$tcc" run $model --input $input >"$TCC_TMP/want" || exit 1

# numbers of the first line agree to 1e-5
same()
{
	awk 'NR == FNR { for (i = 3; i <= NF; i++) want[i] = $i; n = NF; next }
		FNR == 1 {
			if (NF != n) exit 1
			for (i = 3; i <= NF; i++) {
				d = $i - want[i]
				if (d > 1e-5 || d < -1e-5) exit 1
			}
		}' "$TCC_TMP/want" "$1"
}

# source TARGET GOAL ARGUMENTS: compile, build the goal, run
source()
{
	dir=$TCC_TMP/$1.src
	rm -rf "$dir"
	if "$tcc" compile $model --target "$1" --emit src -o "$dir" && make -s -C "$dir" CFLAGS=-O1 "$2" &&
		"$dir/$2" --input $input $3 >"$dir/got" && same "$dir/got"; then
		passed=$((passed + 1))
	else
		echo "$1: failed"
		failed=$((failed + 1))
	fi
}

source c digits ''
source native digits ''
if command -v clang-22 >/dev/null; then
	source sm_80 simulated '--device sim'
	source gfx942 simulated '--device sim'
else
	skipped=$((skipped + 2))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
