#!/bin/sh
# Our tiles beside nvidia-matmul-heuristics' (a package under NVIDIA's licence, for development only):
# tests/heuristics/compare.py. `make heuristics` installs it.
[ -x build/heuristics/venv/bin/python ] && [ -x build/heuristics/tile_times ] || {
	echo "nvidia-matmul-heuristics is not installed: run make heuristics"; exit 77; }
exec build/heuristics/venv/bin/python tests/heuristics/compare.py build/heuristics/tile_times
