#!/bin/sh
# Folders include one way only: cmd -> frontend, opt, codegen -> ir; codegen -> runtime/abi.h;
# opt -> runtime/place.h;
# the runtime includes nothing of the compiler. Third-party headers stand in one folder each.
set -u
allowed() {
	case $1:$2 in
	cmd:cmd/* | cmd:frontend/* | cmd:opt/* | cmd:codegen/* | cmd:ir/* | cmd:runtime/*) ;;
	frontend:frontend/* | frontend:ir/* | frontend:onnx.pb-c.h | frontend:gen/*) ;;
	opt:opt/* | opt:ir/* | opt:runtime/place.h) ;;
	codegen:codegen/* | codegen:ir/* | codegen:runtime/abi.h) ;;
	ir:ir/*) ;;
	runtime:runtime/* | runtime:device/*) ;;
	*:*/*) return 1 ;;
	*) [ -e "$1/$2" ] || [ -e "$3/$2" ] ;;
	esac
}
bad=0
for dir in cmd frontend ir opt codegen runtime; do
	[ -d $dir ] || continue
	for f in $(find $dir -name '*.[ch]'); do
		for h in $(sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$f"); do
			case $h in
			../*) h=$(realpath -m --relative-to=. "$(dirname "$f")/$h") ;;
			esac
			allowed $dir "$h" "$(dirname "$f")" && continue
			echo "$f includes \"$h\""
			bad=1
		done
	done
done
third() {	# HEADER-PATTERN FOLDER
	if grep -rlE "^[ 	]*#[ 	]*include[ 	]*<$1" --include='*.[ch]' \
		cmd frontend ir opt codegen runtime 2>/dev/null | grep -v "^$2/"; then
		echo "include <$1...> outside $2/"
		bad=1
	fi
}
third llvm-c/ codegen
third protobuf-c/ frontend
exit $bad
