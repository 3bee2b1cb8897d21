exec sh tests/models/run --mode run
