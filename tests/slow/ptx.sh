#!/bin/sh
# A tenth of the operator tests through the PTX of each further kind of NVIDIA machine (sm_80: tests/backend/ptx.sh).
rc=0
for target in ${TARGETS:-sm_75 sm_90a sm_120}; do
	echo "$target"
	LIST=sm_80 TCC_CASE_TIMEOUT=600 sh tests/backend/run $target.ptx tenth || rc=1
done
exit $rc
