#!/bin/sh
# The README's table is what `tcc-ml ops` says, and what is not said to run on the host does not.
# usage: table.sh [--write]
set -u
. tests/cases
$py tests/ops/table.py "$tcc" README.md "$@" || exit 1
[ $# = 0 ] || exit 0
[ -d build/backend/node ] || skip "no official tests: run make deps"
$py tests/ops/table.py "$tcc" --hosts build/backend/node/*
