/* Loading a model: its tables are checked once, so that nothing later has to; what it needs is
 * opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "rt.h"

/* --- the meta blob ----------------------------------------------------------------------- */

static int broken(TccErr *err, const char *what, uint64_t row)
{
	return tcc_fail(err, TCC_BAD_FILE, "the compiled model is damaged: %s %llu", what,
	                (unsigned long long)row);
}

static bool range_in(uint64_t offset, uint64_t size, uint64_t whole)
{
	return offset <= whole && size <= whole - offset;
}

static bool table_in(const TccModel *m, TccTable t, size_t row)
{
	return t.offset % 8 == 0 && range_in(t.offset, (uint64_t)t.count * row, m->meta_size);
}

/* The blob's last byte is 0, so a string that starts in it ends in it. */
static bool strings_in(const TccModel *m, const TccString *s, int n)
{
	for (int i = 0; i < n; i++)
		if (s[i] >= m->meta_size)
			return false;
	return true;
}

static int check_head(const TccModel *m, TccErr *err)
{
	const TccMeta *h = tcc_meta(m);
	if (m->abi_version != TCC_ABI_VERSION)
		return tcc_fail(err, TCC_UNSUPPORTED, "the model was compiled for version %u of the "
		                "runtime, this is version %u", m->abi_version, TCC_ABI_VERSION);
	if (!m->meta || (uintptr_t)m->meta % 8 || m->meta_size < sizeof *h ||
	    memcmp(h->magic, "TCCMETA1", 8) || m->meta[m->meta_size - 1])
		return broken(err, "header", 0);
	if (!table_in(m, h->inputs, sizeof(TccPort)) || !table_in(m, h->outputs, sizeof(TccPort)) ||
	    !table_in(m, h->dims, sizeof(TccDim)) || !table_in(m, h->maps, sizeof(TccMap)) ||
	    !table_in(m, h->kernels, sizeof(TccKernel)) ||
	    !table_in(m, h->buffers, sizeof(TccBuffer)) || !table_in(m, h->texts, sizeof(TccString)))
		return broken(err, "table", 0);
	const TccString s[] = {h->name, h->prefix, h->manifest, h->precision, h->arena_formula,
	                       h->weights_file, h->target};
	if (!strings_in(m, s, TCC_COUNT(s)) || !strings_in(m, tcc_rows(m, h->texts), h->texts.count))
		return broken(err, "string", 0);
	if (!m->plan || (h->kernels.count && m->image_kind == TCC_IMAGE_NONE && !m->kernels))
		return broken(err, "code", 0);
	return 0;
}

static int check_ports(const TccModel *m, TccTable t, TccErr *err)
{
	const TccMeta *h = tcc_meta(m);
	const TccPort *p = tcc_rows(m, t);
	for (uint32_t i = 0; i < t.count; i++, p++) {
		const TccString s[] = {p->name, p->ident};
		bool ok = strings_in(m, s, 2) && p->kind <= TCC_MAP && p->elem_kind <= TCC_MAP &&
			p->rank >= -1 && p->rank <= TCC_MAX_RANK &&
			range_in(p->dims, p->rank > 0 ? p->rank : 0, h->dims.count) &&
			(p->buffer == UINT32_MAX || p->buffer < h->buffers.count) &&
			(p->default_offset == TCC_NO_DEFAULT ||
			 range_in(p->default_offset, p->default_size, m->weights_size)) &&
			(p->kind != TCC_TENSOR || tcc_dtype_bits(p->dtype));
		if (!ok)
			return broken(err, "input or output", i);
	}
	return 0;
}

static bool maps_fit(const TccModel *m, const TccKernel *k)
{
	const TccMap *t = (const TccMap *)tcc_rows(m, tcc_meta(m)->maps) + k->maps;
	for (uint32_t i = 0; i < k->nmaps; i++)
		if (t[i].buffer >= k->nbufs || t[i].rank < (t[i].gathers ? 3 : 1) ||
		    t[i].rank > TCC_MAP_RANK)
			return false;
	return true;
}

static int check_dims_and_kernels(const TccModel *m, TccErr *err)
{
	const TccMeta *h = tcc_meta(m);
	const TccDim *d = tcc_rows(m, h->dims);
	for (uint32_t i = 0; i < h->dims.count; i++)
		if (d[i].size < -1 || !strings_in(m, &d[i].symbol, 1))
			return broken(err, "dimension", i);
	const TccKernel *k = tcc_rows(m, h->kernels);
	for (uint32_t i = 0; i < h->kernels.count; i++, k++) {
		const TccString s[] = {k->name, k->symbol, k->nodes};
		if (!strings_in(m, s, 3) || !range_in(k->errors, k->nerrors, h->texts.count) ||
		    k->nbufs > TCC_MAX_ARGS || k->nsyms > TCC_MAX_ARGS || k->nmaps > TCC_MAX_MAPS ||
		    !range_in(k->maps, k->nmaps, h->maps.count) || !maps_fit(m, k))
			return broken(err, "kernel", i);
	}
	return 0;
}

static bool placed(const TccMeta *h, const TccBuffer *b)
{
	return b->size != TCC_NO_SIZE && b->offset % TCC_ALIGN == 0 &&
		range_in(b->offset, b->size, h->arena_bytes);
}

static bool alias_ends(const TccBuffer *b, uint32_t n, uint32_t i)
{
	for (uint32_t steps = 0; steps <= n; steps++) {
		if (b[i].alias < 0)
			return true;
		if ((uint32_t)b[i].alias >= n || b[b[i].alias].cls != TCC_BUF_ARENA)
			return false;
		i = b[i].alias;
	}
	return false;
}

static int check_buffers(const TccModel *m, TccErr *err)
{
	const TccMeta *h = tcc_meta(m);
	const TccBuffer *b = tcc_rows(m, h->buffers);
	for (uint32_t i = 0; i < h->buffers.count; i++) {
		bool ok = strings_in(m, &b[i].name, 1) && b[i].dtype < TCC_NDTYPES;
		switch (b[i].cls) {
		case TCC_BUF_INPUT: ok &= b[i].index < h->inputs.count; break;
		case TCC_BUF_OUTPUT: ok &= b[i].index < h->outputs.count; break;
		case TCC_BUF_WEIGHT:
		case TCC_BUF_CONST: ok &= range_in(b[i].offset, b[i].size, m->weights_size); break;
		case TCC_BUF_ARENA:
			ok &= alias_ends(b, h->buffers.count, i);
			ok &= !(h->flags & TCC_META_STATIC) || placed(h, &b[i]);
			break;
		default: ok &= b[i].cls <= TCC_BUF_VALUE;
		}
		if (!ok)
			return broken(err, "buffer", i);
	}
	return 0;
}

int tcc_model_check(const TccModel *m, TccErr *err)
{
	int rc = check_head(m, err);
	if (!rc)
		rc = check_ports(m, tcc_meta(m)->inputs, err);
	if (!rc)
		rc = check_ports(m, tcc_meta(m)->outputs, err);
	if (!rc)
		rc = check_dims_and_kernels(m, err);
	return rc ? rc : check_buffers(m, err);
}

/* --- weights ----------------------------------------------------------------------------- */

static int bad_weights(TccInst *inst, const char *path, const char *why)
{
	return tcc_fail(&inst->err, TCC_BAD_FILE, "%s: %s", path, why);
}

static int map_weights(TccInst *inst, const char *path)
{
	const TccModel *m = inst->model;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return bad_weights(inst, path, strerror(errno));
	if (fstat(fd, &st) || (uint64_t)st.st_size < sizeof(TccWeightsHeader) ||
	    (uint64_t)st.st_size > SIZE_MAX) {
		close(fd);
		return bad_weights(inst, path, "not a weights file");
	}
	void *p = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	int failed = errno;
	close(fd);
	if (p == MAP_FAILED)
		return bad_weights(inst, path, strerror(failed));
	inst->mapped = p;
	inst->mapped_size = st.st_size;
	if (!(inst->meta->flags & TCC_META_ON_DEMAND))
		madvise(p, st.st_size, MADV_WILLNEED);
	const TccWeightsHeader *h = p;
	if (memcmp(h->magic, "TCCWGHT1", 8))
		return bad_weights(inst, path, "not a weights file");
	if (h->size != m->weights_size || h->id != inst->meta->weights_id)
		return bad_weights(inst, path, "these are the weights of another model or compilation");
	if (inst->mapped_size - sizeof *h < h->size)
		return bad_weights(inst, path, "the file is cut short");
	inst->weights = (const uint8_t *)(h + 1);
	return 0;
}

static int get_weights(TccInst *inst, const char *path)
{
	const TccModel *m = inst->model;
	if (m->weights || !m->weights_size) {
		inst->weights = m->weights;
		return 0;
	}
	if (!path)
		return tcc_fail(&inst->err, TCC_BAD_FILE, "the model's weights are in a file (%s), which "
		                "must be named when it is loaded", tcc_string(m, inst->meta->weights_file));
	return map_weights(inst, path);
}

/* A copy of a string constant with pointers for offsets. NULL: bad or no memory. */
static void *relocate(TccInst *inst, uint64_t offset, uint64_t size)
{
	uint64_t n = size / sizeof(TccStr), whole = inst->model->weights_size;
	TccStr *s = tcc_alloc(n * sizeof *s);
	if (!s || size % sizeof *s) {
		free(s);
		return NULL;
	}
	memcpy(s, inst->weights + offset, size);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)(uintptr_t)s[i].data;
		if (!range_in(at, s[i].size, whole)) {
			free(s);
			return NULL;
		}
		s[i].data = (const char *)inst->weights + at;
	}
	return s;
}

/* Fills inst->constants: host memory of every weight, constant and default, NULL for the others. */
static int find_constants(TccInst *inst)
{
	const TccMeta *h = inst->meta;
	uint32_t nb = h->buffers.count, n = nb + h->inputs.count;
	inst->constants = calloc(n + 1, sizeof *inst->constants);
	if (!inst->constants)
		return tcc_no_memory(&inst->err, n * sizeof *inst->constants);
	for (uint32_t i = 0; i < n; i++) {
		const TccBuffer *b = &inst->buffers[i];
		const TccPort *p = &inst->inputs[i - nb];
		bool is = i < nb ? b->cls == TCC_BUF_WEIGHT || b->cls == TCC_BUF_CONST
		                 : p->default_offset != TCC_NO_DEFAULT;
		if (!is)
			continue;
		uint64_t offset = i < nb ? b->offset : p->default_offset;
		uint64_t size = i < nb ? b->size : p->default_size;
		if ((i < nb ? b->dtype : p->dtype) != TCC_STRING) {
			inst->constants[i] = (uint8_t *)inst->weights + offset;
			continue;
		}
		inst->constants[i] = relocate(inst, offset, size);
		if (!inst->constants[i])
			return broken(&inst->err, "string constant", i);
	}
	return 0;
}

static void free_constants(TccInst *inst)
{
	const TccMeta *h = inst->meta;
	uint32_t nb = h ? h->buffers.count : 0, n = h ? nb + h->inputs.count : 0;
	for (uint32_t i = 0; inst->constants && i < n; i++)
		if ((i < nb ? inst->buffers[i].dtype : inst->inputs[i - nb].dtype) == TCC_STRING)
			free(inst->constants[i]);
	free(inst->constants);
}

void tcc_image_list(const TccModel *m, char *text, size_t size)
{
	*text = 0;
	for (const TccModel *v = m; v; v = v->next)
		for (uint64_t i = 0; v->image_kind == m->image_kind && i < v->nimages; i++) {
			size_t n = strlen(text);
			snprintf(text + n, size - n, "%s%s", n ? ", " : "", v->images[i].arch);
		}
}

/* --- devices and variants ---------------------------------------------------------------- */

static const TccDeviceOps *device_of(uint32_t image_kind)
{
	const TccDeviceOps *all[] = {&tcc_device_cuda, &tcc_device_hip, &tcc_device_sim};
	for (size_t i = 0; i < TCC_COUNT(all); i++)
		if (all[i] && all[i]->image_kind == image_kind)
			return all[i];
	return NULL;
}

/* Splits "cuda:1". */
static bool wanted(const char *device, const char *name, int *ordinal)
{
	*ordinal = 0;
	if (!device || !*device)
		return true;
	size_t n = strcspn(device, ":");
	if (strlen(name) != n || memcmp(device, name, n))
		return false;
	if (device[n]) {
		char *end;
		unsigned long v = strtoul(device + n + 1, &end, 10);
		if (!device[n + 1] || *end || v > 1024)
			return false;
		*ordinal = (int)v;
	}
	return true;
}

static int open_variant(TccInst *inst, const TccModel *m, const TccModel *all, const char *device,
                        TccErr *err)
{
	int ordinal, rc;
	if (m->image_kind == TCC_IMAGE_NONE) {
		if (!wanted(device, "cpu", &ordinal))
			return tcc_fail(err, TCC_NO_DEVICE, "the model was compiled for the CPU, not for '%s'",
			                device);
		return tcc_cpu_check(m->needs, err);
	}
	const TccDeviceOps *ops = device_of(m->image_kind);
	if (!ops)
		return tcc_fail(err, TCC_NO_DEVICE, "the program was linked without the runtime of its "
		                "device (%s)", m->machine ? m->machine : "?");
	if (!wanted(device, ops->name, &ordinal))
		return tcc_fail(err, TCC_NO_DEVICE, "the model was compiled for '%s', not for '%s'",
		                ops->name, device);
	if ((rc = tcc_cpu_check(m->needs, err)))
		return rc;
	return ops->open(&inst->dev, m, all, ordinal, err);
}

/* The message of the first variant is kept, for it is the one that was meant; of several for one
 * kind of device the last's, which has what runs on most. */
static int pick_variant(TccInst *inst, const TccModel *model, const char *device)
{
	TccErr first = {0};
	for (const TccModel *m = model; m; m = m->next) {
		TccErr err = {0};
		int rc = tcc_model_check(m, &err);
		if (!rc)
			rc = open_variant(inst, m, model, device, &err);
		if (!rc) {
			inst->model = m;
			return 0;
		}
		if (!first.code || (m->image_kind && m->image_kind == model->image_kind))
			first = err;
	}
	inst->err = first;
	return first.code;
}

static void bind_tables(TccInst *inst)
{
	const TccModel *m = inst->model;
	const TccMeta *h = inst->meta = tcc_meta(m);
	inst->kernels = tcc_rows(m, h->kernels);
	inst->buffers = tcc_rows(m, h->buffers);
	inst->inputs = tcc_rows(m, h->inputs);
	inst->outputs = tcc_rows(m, h->outputs);
	inst->dims = tcc_rows(m, h->dims);
	inst->texts = tcc_rows(m, h->texts);
}

static int upload_weights(TccInst *inst)
{
	TccDevice *dev = inst->dev;
	uint64_t size = inst->model->weights_size;
	void *p = NULL, *stream = NULL;
	if (!dev || !size)
		return 0;
	int rc = dev->ops->enter(dev, &inst->err);
	if (!rc)
		rc = dev->ops->alloc(dev, size, &p, &inst->err);
	inst->dev_weights = p;
	if (!rc && inst->meta->flags & TCC_META_ON_DEMAND) {
		uint64_t n = (size + TCC_PIECE - 1) / TCC_PIECE;
		pthread_mutex_init(&inst->piece_lock, NULL);
		inst->resident = calloc(n, 1);
		return inst->resident ? 0 : tcc_no_memory(&inst->err, n);
	}
	if (!rc)
		rc = dev->ops->stream_new(dev, &stream, &inst->err);
	if (!rc)
		rc = dev->ops->upload(dev, stream, p, inst->weights, size, &inst->err);
	if (!rc)
		rc = dev->ops->sync(dev, stream, &inst->err);
	if (stream)
		dev->ops->stream_free(dev, stream);
	return rc;
}

/* --- the library's calls ----------------------------------------------------------------- */

int tcc_load(const TccModel *model, const TccOptions *options, TccInst **out)
{
	TccInst *inst = *out = calloc(1, sizeof *inst);
	if (!inst)
		return TCC_BUDGET;
	if (options)
		memcpy(&inst->options, options, options->size < sizeof *options ? options->size
		                                                               : sizeof *options);
	if (!model || (options && options->size < offsetof(TccOptions, threads)))
		return tcc_fail(&inst->err, TCC_USAGE, "tcc_load: no model, or options without a size");
	TccOptions *o = &inst->options;
	if (o->threads < 0 || o->threads > TCC_MAX_THREADS)
		return tcc_fail(&inst->err, TCC_USAGE, "threads: %d is not in 0 to %d", o->threads,
		                TCC_MAX_THREADS);
	int rc = pick_variant(inst, model, o->device);
	if (rc)
		return rc;
	bind_tables(inst);
	if ((rc = get_weights(inst, o->weights)) || (rc = find_constants(inst)))
		return rc;
	o->weights = o->device = NULL;
	if (!o->threads)
		o->threads = inst->dev ? 1 : tcc_cpu_count();
	return upload_weights(inst);
}

void tcc_unload(TccInst *inst)
{
	if (!inst)
		return;
	if (inst->dev) {
		TccDevice *dev = inst->dev;
		if (inst->dev_weights && !dev->ops->enter(dev, NULL))
			dev->ops->free(dev, inst->dev_weights);
		dev->ops->close(dev);
	}
	free_constants(inst);
	if (inst->resident)
		pthread_mutex_destroy(&inst->piece_lock);
	free(inst->resident);
	if (inst->mapped)
		munmap(inst->mapped, inst->mapped_size);
	free(inst);
}

const char *tcc_inst_error(const TccInst *inst)
{
	return inst ? inst->err.text : "out of memory";
}

const TccModel *tcc_inst_model(const TccInst *inst)
{
	return inst->model;
}
