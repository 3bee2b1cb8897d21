/* OpenVINO, by its C API: one stream, made for latency. By default it would round the
 * activations of products with weights of bytes to bytes (an error of 1 %), which no other
 * engine here does. */
#include <dlfcn.h>
#include <stdio.h>
#include <openvino/c/openvino.h>
#include "bench.h"

/* what is called, all of it found when the library is opened */
#define FUNCTIONS(X) \
	X(ov_core_create) X(ov_core_read_model) X(ov_core_compile_model) \
	X(ov_compiled_model_create_infer_request) X(ov_compiled_model_input_by_name) \
	X(ov_port_get_element_type) X(ov_tensor_create_from_host_ptr) X(ov_infer_request_set_tensor) \
	X(ov_infer_request_get_tensor) X(ov_infer_request_infer) X(ov_tensor_data) \
	X(ov_tensor_get_element_type) X(ov_tensor_free) X(ov_get_last_err_msg)

static struct {
#define FIELD(name) __typeof__(&name) name;
	FUNCTIONS(FIELD)
#undef FIELD
} ov;

static ov_compiled_model_t *compiled;
static ov_infer_request_t *request;
static char message[512];

static const char *
failed(ov_status_e s)
{
	const char *text;

	if (s == OK)
		return NULL;
	text = ov.ov_get_last_err_msg();
	snprintf(message, sizeof message, "%s", text ? text : "unknown error");
	return message;
}

static const char *
open_api(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return dlerror();
#define GET(name) if (!(ov.name = (__typeof__(&name))dlsym(lib, #name))) return dlerror();
	FUNCTIONS(GET)
#undef GET
	return NULL;
}

/* The tensor of input i over our memory. An input that no node uses is not the compiled model's. */
static const char *
set_input(int i)
{
	const TccTensor *x = &ports.in[i].u.tensor;
	ov_output_const_port_t *port;
	ov_element_type_e type;
	ov_tensor_t *tensor;
	const char *why;

	if (ov.ov_compiled_model_input_by_name(compiled, ports.in_names[i], &port) != OK)
		return NULL;
	why = failed(ov.ov_port_get_element_type(port, &type));
	if (!why)
		why = failed(ov.ov_tensor_create_from_host_ptr(type,
			(ov_shape_t){.rank = x->ndim, .dims = x->shape}, x->data, &tensor));
	return why ? why : failed(ov.ov_infer_request_set_tensor(request, ports.in_names[i], tensor));
}

static const char *
load(const Args *a)
{
	ov_core_t *core;
	ov_model_t *model;
	const char *why;
	char threads[16];
	int i;

	if (!a->openvino)
		return "not installed";
	snprintf(threads, sizeof threads, "%d", a->threads);
	if ((why = open_api(a->openvino)) || (why = failed(ov.ov_core_create(&core)))
		|| (why = failed(ov.ov_core_read_model(core, a->onnx, NULL, &model))))
		return why;
	why = failed(ov.ov_core_compile_model(core, model, "CPU", 10, &compiled,
		"INFERENCE_PRECISION_HINT", a->precision, "INFERENCE_NUM_THREADS", threads,
		"NUM_STREAMS", "1", "DYNAMIC_QUANTIZATION_GROUP_SIZE", "0", "PERFORMANCE_HINT", "LATENCY"));
	if (!why)
		why = failed(ov.ov_compiled_model_create_infer_request(compiled, &request));
	for (i = 0; i < ports.nin && !why; i++)
		why = set_input(i);
	return why;
}

static const char *
run(void)
{
	return failed(ov.ov_infer_request_infer(request));
}

static const float *
output(int k)
{
	ov_element_type_e type;
	ov_tensor_t *tensor;
	void *data = NULL;

	if (ov.ov_infer_request_get_tensor(request, ports.out_names[k], &tensor) != OK)
		return NULL;
	if (ov.ov_tensor_get_element_type(tensor, &type) != OK || type != F32
		|| ov.ov_tensor_data(tensor, &data) != OK)
		data = NULL;
	ov.ov_tensor_free(tensor);
	return data;
}

const Engine engine_openvino = {"openvino", load, run, output};
