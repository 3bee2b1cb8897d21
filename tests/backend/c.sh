exec sh tests/backend/run c
