exec sh tests/models/run --mode exe
