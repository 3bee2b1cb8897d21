# make check-gpu [CORPUS=DIR] [DEVICE_ARGS=...]: on a machine with a GPU, see check.py
check-gpu: all $(DEPS_TEST) build/backend/made
	build/venv/bin/python tests/device/check.py $(if $(CORPUS),--corpus $(CORPUS)) $(DEVICE_ARGS)

# the same steps without a GPU, by the simulator, in small
rehearse-gpu: all $(DEPS_TEST) build/backend/made
	build/venv/bin/python tests/device/check.py --rehearse sm_80 --seconds 60 $(DEVICE_ARGS)

.PHONY: check-gpu rehearse-gpu
