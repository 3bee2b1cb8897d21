# make bench CORPUS=DIR [MODELS=DIR] [BENCH_ARGS=...]: against onnxruntime, OpenVINO and IREE, see bench.py
BENCH_VENV := build/bench/venv
BENCH_SRCS := $(wildcard tests/bench/*.c)

$(BENCH_VENV)/made: tests/bench/requirements.txt | $(DEPS_TEST)
	@sh third_party/venv.sh $(BENCH_VENV) $<
	@touch $@

build/bench/bench: $(BENCH_SRCS) $(wildcard tests/bench/*.h) runtime/abi.h $(BENCH_VENV)/made
	@mkdir -p $(@D)
	@$(CC) $(BASE) -O2 $(INCS) -isystem $$(echo $(BENCH_VENV)/lib/*/site-packages/openvino/include) \
		-o $@ $(BENCH_SRCS) -ldl -lm -lpthread

bench: all build/bench/bench
	$(BENCH_VENV)/bin/python tests/bench/bench.py --corpus $(CORPUS) \
		--models $(or $(MODELS),$(CORPUS)/models) $(BENCH_ARGS)

.PHONY: bench
