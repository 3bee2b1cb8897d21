# the official operator tests, written out once from the onnx package
build/backend/made: tests/backend/generate.py $(DEPS_TEST)
	build/venv/bin/python $< build/backend
	@touch $@

check check-slow: build/backend/made
