exec sh tests/backend/run native all
