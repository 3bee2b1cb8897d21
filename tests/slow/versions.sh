#!/bin/sh
# The official tests with older operator sets, against onnxruntime.
set -u
. tests/cases
tests=build/backend
[ -d $tests/node ] || skip "no $tests: run make $tests/made"
write_cases reversioned tests/slow/versions.py $tests
verify_cases --rtol 1e-3 --atol 1e-5
