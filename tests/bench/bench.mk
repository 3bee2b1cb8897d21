# make bench CORPUS=DIR [MODELS=DIR] [BENCH_ARGS=...]: against onnxruntime, see bench.py
build/bench/bench: tests/bench/bench.c tests/bench/ort.h runtime/abi.h | $(DEPS_TEST)
	@mkdir -p $(@D)
	@$(CC) $(BASE) -O2 $(INCS) -o $@ $< -ldl -lm

bench: all build/bench/bench
	build/venv/bin/python tests/bench/bench.py --corpus $(CORPUS) \
		--models $(or $(MODELS),$(CORPUS)/models) $(BENCH_ARGS)

.PHONY: bench
