/* A benchmark's engines: tcc-ml's programs and their peers, called alike. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/abi.h"

enum { MAX_PORTS = 256, MAX_RANK = 16 };

/* What every engine is given: values of all inputs in memory, names of all outputs. */
typedef struct Ports {
	char *in_names[MAX_PORTS], *out_names[MAX_PORTS];
	TccValue in[MAX_PORTS];
	size_t in_bytes[MAX_PORTS];
	int nin, nout;
} Ports;
extern Ports ports;

typedef struct Args {
	const char *onnx;              /* the model's file */
	const char *so, *model, *api;  /* as tcc-ml compiled it, and its symbols */
	const char *other;             /* a second one with the same symbols */
	const char *ort;               /* onnxruntime's library */
	const char *openvino;          /* OpenVINO's C library */
	const char *precision;         /* f32 or bf16: what engines may compute in that choose it */
	const char *ports;
	int threads, rounds;
	double seconds;
} Args;

/* Functions give NULL, or why it did not work: text that stays. One model in a process. */
typedef struct Engine {
	const char *name;
	const char *(*load)(const Args *);
	const char *(*run)(void);
	/* The last run's output k, if it is a float32 tensor; else NULL. */
	const float *(*output)(int k);
} Engine;
extern const Engine engine_tcc, engine_other, engine_ort, engine_openvino;

/* tcc-ml's value of an output: its shape is what all have */
const TccValue *tcc_output(int k);

/* machine.c: prints the machine's speed on so many threads as JSON: {"gflops": float32
 * multiply-adds of vectors counted as two, "gbytes": 1e9 bytes read per second from memory}. */
void measure_machine(int threads);

double now_ms(void);

#endif
