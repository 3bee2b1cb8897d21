#!/bin/sh
# All official tests with less declared.
MODE=all exec sh tests/backend/rewritten.sh
