#!/bin/sh
# A tenth of the operator tests through the PTX that NVIDIA's compiler makes of the kernels.
exec sh tests/backend/run sm_80.ptx tenth
