exec sh tests/backend/run c "${MODE:-listed}"
