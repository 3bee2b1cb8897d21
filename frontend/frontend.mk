GEN_SRCS += $(G)/frontend/onnx.pb-c.c
GEN_HDRS += $(G)/frontend/onnx.pb-c.h

$(G)/frontend/onnx.pb-c.c $(G)/frontend/onnx.pb-c.h &: frontend/onnx.proto | $(DEPS_BUILD)
	@mkdir -p $(@D)
	@protoc-c --c_out=$(G) frontend/onnx.proto
