exec sh tests/backend/run gfx942 "${MODE:-listed}"
