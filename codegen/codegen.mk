# The program that runs NVRTC is carried within tcc-ml.
NVRTC_WORKER := $(B)/lib/nvrtc_worker
TCC_DROP += codegen/worker/nvrtc.c
EMBED += $(NVRTC_WORKER)

$(NVRTC_WORKER): codegen/worker/nvrtc.c | $(DEPS_BUILD)
	@echo "CC $@"
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 -O2 -Wall -Wextra -s -ffile-prefix-map=$(CURDIR)=. -o $@ $< -lpthread -ldl
