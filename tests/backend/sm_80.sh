exec sh tests/backend/run sm_80 "${MODE:-listed}"
