#!/bin/sh
# The official tests with less declared (rewrite.py): what passes as it is passes so too. Those whose rank only
# data settle are listed in rewritten.refused (mode, test) and refused with the option that settles it, which
# then does (advice.py).
# A fixed tenth, or with MODE=all the whole.
set -u
. tests/cases
tests=build/backend
list=tests/backend/native.txt
refused=tests/backend/rewritten.refused
[ -d $tests/node ] || skip "no $tests: run make $tests/made"
top=${TCC_TMP:-build/tests}/rewritten
passed=0 failed=0
for how in undeclared symbolic free; do
	dir=$top/$how
	rm -rf "$dir"
	$py tests/backend/rewrite.py $how $tests "$dir" || exit 1
	awk -v all="${MODE-tenth}" 'all == "all" || NR % 10 == 1' $list |
		while read -r t; do
			[ -d "$dir/$t" ] || continue
			[ $how = free ] && cmp -s "$dir/$t/model.onnx" "$top/symbolic/$t/model.onnx" || echo "$dir/$t"
		done >"$top/dirs"
	sed -n "s,^$how \(.*\),$dir/\1,p" $refused >"$top/refused"
	sort -u "$top/dirs" "$top/refused" |
		xargs -n 4000 "$tcc" verify -j "${TCC_JOBS:-2}" --timeout 60 >"$top/log" 2>&1
	awk -v how=$how '
		FILENAME ~ /refused$/ { sub(".*/", ""); want[$0] = 1; next }
		!/^(PASS|FAIL|ERROR|UNSUPPORTED|SKIP) / { next }
		{ t = $2; sub(":$", "", t); n++
		  ok = t in want ? $1 == "UNSUPPORTED" && /fix it with --(shape|freeze)/ : $1 == "PASS"
		  if (!ok) { bad++; print how, (t in want ? "(to be refused) " : "") $0 } }
		END { printf "%d %d\n", n - bad, bad }' "$top/refused" "$top/log" >"$top/result"
	sed '$d' "$top/result"
	read -r good bad <<-END
		$(tail -n 1 "$top/result")
	END
	[ "$good" -gt 0 ] || bad=$((bad + 1))
	if [ -s "$top/refused" ]; then
		$py tests/backend/advice.py "$tcc" $(awk -v all="${MODE-tenth}" 'all == "all" || NR % 5 == 1' "$top/refused") ||
			bad=$((bad + 1))
	fi
	passed=$((passed + good)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
