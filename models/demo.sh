#!/bin/sh
# Compiles digits.onnx to an executable, shows it pictures and says what it sees.
# usage: demo.sh [PICTURE.pgm]     from the top of the tree, after make
set -eu
tcc=build/tcc-ml
dir=build/demo
picture=${1:-models/digits/2.pgm}
labels=models/digits/labels.txt

die() {
	echo "demo: $*" >&2
	exit 1
}

now() {
	echo $(($(date +%s%N) / 1000))
}

ms() {	# MICROSECONDS
	awk -v us="$1" 'BEGIN { printf us < 9950 ? "%.1f ms" : us < 1e6 ? "%.0f ms" : "%.1f s",
		us < 1e6 ? us / 1e3 : us / 1e6 }'
}

kb() {	# BYTES
	awk -v b="$1" 'BEGIN { printf "%.0f KB", b / 1024 }'
}

# the picture's rows in characters, two columns for one of the terminal's square-ish cells
draw() {
	tail -c 784 "$1" | od -An -v -tu1 -w28 |
		awk '{ s = ""; for (i = 1; i <= NF; i++) { c = substr(" .:+#@", int($i / 43) + 1, 1)
			s = s c c } print "    " s }'
}

# probabilities of output_0.npy, largest first: PROBABILITY INDEX
ranked() {
	header=$(od -An -tu2 -j8 -N2 "$1")
	od -An -v -tf4 -w4 -j$((10 + header)) "$1" | awk '{ print $1, NR - 1 }' | sort -rg
}

look() {	# PICTURE: runs the program, leaves its answer in $sure and $label
	rm -rf $dir/out
	$dir/digits --input picture="$1" --output-dir $dir/out >/dev/null
	set -- $(ranked $dir/out/output_0.npy | head -n 1)
	sure=$(awk -v p="$1" 'BEGIN { printf "%.1f %%", 100 * p }')
	label=$(sed -n "$(($2 + 1))p" $labels)
	digit=$2
}

[ -r "$picture" ] || die "cannot read $picture"
[ "$(head -c 2 "$picture") $(sed -n 2p "$picture")" = "P5 28 28" ] ||
	die "$picture is not a PGM picture (P5) of 28 x 28 pixels, white on black"
mkdir -p $dir

start=$(now)
$tcc compile models/digits.onnx -o $dir/digits
compiled=$(($(now) - start))
size=$(wc -c <$dir/digits)
weights=$($tcc inspect models/digits.onnx --json 2>/dev/null |
	sed -n 's/.*"weight_bytes": *\([0-9]*\).*/\1/p' | head -n 1)

echo "models/digits.onnx ($(kb $(wc -c <models/digits.onnx))) is now the program $dir/digits:" \
	"$(kb $size)${weights:+, of them $(kb $weights) weights}; compiled in $(ms $compiled)."
echo "It needs:" $(ldd $dir/digits | awk '/=>/ { print $1 }') "- and nothing else."
echo
echo "$picture:"
draw "$picture"
start=$(now)
look "$picture"
cold=$(($(now) - start))
echo
echo "I see a$(echo "$label" | sed "s,^eight,n &,; t; s,^, ,") ($sure sure)."
ranked $dir/out/output_0.npy | head -n 3 | while read -r p i; do
	awk -v p="$p" -v l="$(sed -n "$((i + 1))p" $labels)" 'BEGIN {
		n = int(50 * p + 0.5); while (n-- > 0) bar = bar "="
		printf "    %-6s %5.1f %% %s\n", l, 100 * p, bar }'
done
warm=$($dir/digits --bench --json --threads 1 2>/dev/null |
	sed -n 's/.*"median_ms": *\([0-9.e+-]*\).*/\1/p' | head -n 1)
echo
echo "From start to answer $(ms $cold), the shell's share included;" \
	"a warm run takes ${warm:+$(awk -v m="$warm" 'BEGIN { printf "%.3f ms", m }')} on one thread."

seen= right=0 all=0
for p in models/digits/[0-9].pgm; do
	look "$p"
	seen="$seen $digit"
	all=$((all + 1))
	[ "$p" != "models/digits/$digit.pgm" ] || right=$((right + 1))
done
echo "All $all pictures, in order:$seen. $right of $all are right."
[ $right = $all ] || die "expected all of them"
