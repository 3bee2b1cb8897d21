#!/bin/sh
# Searches for sequences, against onnxruntime; a few of each kind on every kind of target.
set -u
. tests/cases
write_cases search tests/ops/search.py
rc=0
verify_cases --rtol 1e-3 --atol 1e-4 || rc=1
for target in c "sm_80 --simulate" "gfx942 --simulate"; do
	echo "== $target"
	"$tcc" verify --target $target --rtol 1e-3 --atol 1e-4 "$out"/beam_coder_3 "$out"/beam_sound_0 \
		"$out"/greedysearch_all "$out"/beam_all "$out"/sampling_some_1 | grep -v '^PASS' || rc=1
done
exit $rc
