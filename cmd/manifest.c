/* The manifest of an artefact: what it was made from, by what, with which options. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "codegen/tool.h"

/* ---- SHA-256 (FIPS 180-4) ------------------------------------------------------------------ */

typedef struct Sha { uint32_t h[8]; uint64_t size; } Sha;

static const uint32_t round_k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t
ror(uint32_t v, int n)
{
	return v >> n | v << (32 - n);
}

static void
sha_block(Sha *s, const unsigned char *p)
{
	uint32_t w[64], v[8], a, b;
	int i;

	for (i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16
			| (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] + (ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3)
			+ (ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, s->h, sizeof v);
	for (i = 0; i < 64; i++) {
		a = v[7] + (ror(v[4], 6) ^ ror(v[4], 11) ^ ror(v[4], 25))
			+ ((v[4] & v[5]) ^ (~v[4] & v[6])) + round_k[i] + w[i];
		b = (ror(v[0], 2) ^ ror(v[0], 13) ^ ror(v[0], 22))
			+ ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof *v);
		v[4] += a;
		v[0] = a + b;
	}
	for (i = 0; i < 8; i++)
		s->h[i] += v[i];
}

/* All of the file but its last part, which goes with the padding. */
static void
sha_end(Sha *s, unsigned char *last, size_t n)
{
	int i;

	last[n++] = 0x80;
	memset(last + n, 0, 128 - n);
	n = n > 56 ? 128 : 64;
	for (i = 0; i < 8; i++)
		last[n - 1 - (size_t)i] = (unsigned char)(s->size * 8 >> 8 * i);
	for (i = 0; i < (int)n; i += 64)
		sha_block(s, last + i);
}

struct FileHash {
	pthread_t thread;
	bool started;
	const char *path;
	char text[65];
};

static void *
hash_file(void *arg)
{
	FileHash *f = arg;
	Sha s = {.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
		0x1f83d9ab, 0x5be0cd19}};
	unsigned char buf[1 << 14], last[128] = {0};
	FILE *fp = fopen(f->path, "rb");
	size_t n = 0, i;

	while (fp && (n = fread(buf, 1, sizeof buf, fp)) == sizeof buf) {
		for (i = 0; i < sizeof buf; i += 64)
			sha_block(&s, buf + i);
		s.size += n;
	}
	if (!fp)
		return NULL;
	s.size += n;
	for (i = 0; i + 64 <= n; i += 64)
		sha_block(&s, buf + i);
	memcpy(last, buf + i, n - i);
	sha_end(&s, last, n - i);
	if (!ferror(fp))
		for (i = 0; i < 8; i++)
			snprintf(f->text + 8 * i, 9, "%08x", s.h[i]);
	fclose(fp);
	return NULL;
}

FileHash *
hash_start(const char *path)
{
	FileHash *f = calloc(1, sizeof *f);

	if (!f)
		abort();
	f->path = path;
	f->started = pthread_create(&f->thread, NULL, hash_file, f) == 0;
	return f;
}

void
hash_end(FileHash *f, char text[65])
{
	if (f->started)
		pthread_join(f->thread, NULL);
	else
		hash_file(f);
	memcpy(text, f->text, 65);
	free(f);
}

/* ---- the text ------------------------------------------------------------------------------ */

static void
put_model(Compilation *c, cJSON *j, const char *sha256)
{
	const OnnxModel *om = c->onnx;
	cJSON *sets;
	int i;

	json_text(j, "name", c->m->name);
	json_text(j, "sha256", sha256);
	json_text(j, "format", om ? "onnx" : "ir");
	if (!om)
		return;
	if (om->producer && *om->producer)
		json_text(j, "producer", om->producer);
	json_real(j, "ir_version", (double)om->ir_version);
	sets = json_object(j, "opsets");
	for (i = 0; i < om->nopset; i++)
		json_real(sets, *om->opset[i].domain ? om->opset[i].domain : "ai.onnx",
			(double)om->opset[i].version);
}

/* The options as given; paths are left out: the bytes do not depend on where files lie. */
static void
put_options(const Options *o, cJSON *j)
{
	const char *text;
	const Opt *t;
	cJSON *list;
	int i;

	for (t = options; t->name; t++) {
		if (!(t->commands & OPT_MANIFEST) || !option_text(o, t, 0))
			continue;
		if (t->kind != OPT_LIST && t->kind != OPT_CHOICES) {
			json_text(j, t->name, option_text(o, t, 0));
			continue;
		}
		list = json_list(j, t->name);
		for (i = 0; (text = option_text(o, t, i)); i++)
			json_add_text(list, text);
	}
}

static void
put_tools(const Compilation *c, cJSON *j)
{
	int major, minor;
	char text[32], where[512];
	bool cuda = c->m->machine->kind == M_CUDA && !c->o->simulate && !c->o->cuda;

	json_text(j, "llvm", codegen_llvm_version());
	if (cuda && cuda_nvrtc(&major, &minor, where, sizeof where)) {
		snprintf(text, sizeof text, "%d.%d", major, minor);
		json_text(j, "nvrtc", text);
	}
}

const char *
manifest(Compilation *c, const char *sha256)
{
	const Machine *t = c->m->machine, *h = c->m->host;
	cJSON *j = cJSON_CreateObject(), *list;
	char *text;
	int i;

	if (!j)
		abort();
	json_real(j, "version", JSON_VERSION);
	json_text(j, "tcc_ml", TCC_ML_VERSION);
	json_real(j, "abi", TCC_ABI_VERSION);
	put_model(c, json_object(j, "model"), sha256);
	json_text(j, "target", t->name);
	if (t->has && *t->has)
		json_text(j, "features", t->has);
	if (h != t)
		json_text(j, "host", h->name);
	put_options(c->o, json_object(j, "options"));
	if (c->m->tuning)
		json_flag(j, "tuned", true);
	list = json_list(j, "frozen");
	for (i = 0; i < c->o->freeze.n; i++)
		json_add_text(list, arena_printf(c->m->arena, "%.*s", (int)strcspn(c->o->freeze.at[i], "="),
			c->o->freeze.at[i]));
	list = json_list(j, "overridable");
	for (i = 0; c->onnx && i < c->onnx->overridable.n; i++)
		json_add_text(list, c->onnx->overridable.at[i]);
	put_tools(c, json_object(j, "tools"));
	text = cJSON_PrintUnformatted(j);
	if (!text)
		abort();
	cJSON_Delete(j);
	sha256 = arena_printf(c->m->arena, "%s", text);
	free(text);
	return sha256;
}
