# make heuristics: our tiles of matrix units beside those of nvidia-matmul-heuristics, see compare.py
HEUR_VENV := build/heuristics/venv

$(HEUR_VENV)/made: tests/heuristics/requirements.txt | $(DEPS_TEST)
	@sh third_party/venv.sh $(HEUR_VENV) $<
	@touch $@

build/heuristics/tile_times: tests/heuristics/tile_times.c $(TCC_LIB) | $(DEPS_TEST)
	@mkdir -p $(@D)
	@$(CC) $(BASE) $(CFLAGS) $(INCS) $(PKG_INC) -o $@ $< $(TCC_LIB) $(LIBS)

heuristics: build/heuristics/tile_times $(HEUR_VENV)/made
	$(HEUR_VENV)/bin/python tests/heuristics/compare.py build/heuristics/tile_times $(HEUR_ARGS)

.PHONY: heuristics
