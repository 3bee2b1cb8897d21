exec sh tests/backend/run gfx942
