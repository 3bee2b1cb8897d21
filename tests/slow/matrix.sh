#!/bin/sh
# The whole matrix on CPUs, a twentieth on simulated devices.
SHARE=0/1 sh tests/matrix/matrix.sh || rc=1
SHARE=1/20 TARGETS="sm_80+--simulate gfx942+--simulate" sh tests/matrix/matrix.sh || rc=1
exit ${rc-0}
