exec sh tests/models/run --mode run --target sm_80 --simulate
