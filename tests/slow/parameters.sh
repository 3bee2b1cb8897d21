#!/bin/sh
# Parameters known only at run time, on simulated devices.
TARGETS="sm_80+--simulate gfx942+--simulate" exec sh tests/ops2/parameters.sh
