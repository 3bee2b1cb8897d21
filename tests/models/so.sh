exec sh tests/models/run --mode so
