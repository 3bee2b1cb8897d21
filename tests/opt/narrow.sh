#!/bin/sh
# Convolutions on a machine with narrow vectors: tiles and the blocks of their weights must agree there
# as they do on the widest one.
cases=build/backend/pytorch-converted
[ -d $cases ] || { echo "no $cases: run make build/backend/made"; exit 77; }
exec "${TCC_BUILD:-build}/tcc-ml" verify --target x86-64-v2 $cases/*Conv*
