exec sh tests/models/run --mode run --target gfx942 --simulate
