exec sh tests/backend/run native "${MODE:-all}"
