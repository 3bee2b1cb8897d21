/*
 * The device's work of a run, held back until something must wait for it: a transfer to or from the
 * host, an allocation's end. A launch costs the host microseconds each time, so work that comes
 * again word for word (a run of the same shapes with the same memory) becomes a graph when it is
 * seen the second time, and one launch from then on. The plan still runs each time; it only asks
 * for work, and nothing of a graph's contents is ever taken on trust.
 */
#include <stdlib.h>
#include <string.h>
#include "rt.h"

enum { GRAPHS = 8, WORTH = 4 };         /* graphs kept; the least work that is made one */

/* A list of work with all that it refers to, in blocks that grow. */
typedef struct Work {
	TccWork *at;
	uint32_t n, cap;
	uint64_t *words;        /* parameters, then sizes, of each launch */
	uint64_t nwords, words_cap;
	const char **names;
	uint64_t nnames, names_cap;
	void **params;
	uint64_t nparams, params_cap;
} Work;

typedef struct Graph {
	Work work;
	void *handle;           /* NULL: seen once */
	uint64_t used;
} Graph;

struct TccQueue {
	Work work;
	Graph graphs[GRAPHS];
	uint64_t clock;
	bool refused;           /* the device makes no graphs */
};

int tcc_issue(TccDevice *dev, void *stream, const TccWork *w, bool follows, TccErr *err)
{
	TccLaunch l = w->launch;
	l.follows = follows;
	switch (w->kind) {
	case TCC_WORK_LAUNCH: return dev->ops->launch(dev, stream, &l, err);
	case TCC_WORK_COPY: return dev->ops->copy(dev, stream, w->dst, w->src, w->bytes, err);
	case TCC_WORK_UP: return dev->ops->upload(dev, stream, w->dst, w->src, w->bytes, err);
	case TCC_WORK_DOWN: return dev->ops->download(dev, stream, w->dst, w->src, w->bytes, err);
	default: return dev->ops->zero(dev, stream, w->dst, w->bytes, err);
	}
}

/* --- lists --------------------------------------------------------------------------------- */

static bool room(void **p, uint64_t *cap, uint64_t want, size_t size)
{
	if (want <= *cap)
		return true;
	uint64_t n = 2 * *cap > want ? 2 * *cap : want + 64;
	void *q = realloc(*p, n * size);
	if (!q)
		return false;
	*p = q;
	*cap = n;
	return true;
}

static bool grow(Work *w, uint64_t words, uint64_t names, uint64_t params)
{
	uint64_t cap = w->cap;
	bool ok = room((void **)&w->at, &cap, w->n + (uint64_t)1, sizeof *w->at);
	w->cap = (uint32_t)cap;
	return ok && room((void **)&w->words, &w->words_cap, w->nwords + words, sizeof *w->words) &&
	       room((void **)&w->names, &w->names_cap, w->nnames + names, sizeof *w->names) &&
	       room((void **)&w->params, &w->params_cap, w->nparams + params, sizeof *w->params);
}

/* Words of the launch's parameter k. */
static uint32_t param_words(const TccLaunch *l, uint32_t nparams, uint32_t k)
{
	return k + l->nmaps >= nparams ? TCC_MAP_WORDS : 1;
}

/* Points launches into the blocks, which have moved while the list grew. */
static void settle(Work *w)
{
	uint64_t word = 0, name = 0, param = 0;
	for (uint32_t i = 0; i < w->n; i++) {
		TccWork *x = &w->at[i];
		if (x->kind != TCC_WORK_LAUNCH)
			continue;
		TccLaunch *l = &x->launch;
		l->params = w->params + param;
		l->names = w->names + name;
		for (uint32_t k = 0; k < x->nparams; k++) {
			w->params[param++] = &w->words[word];
			word += param_words(l, x->nparams, k);
		}
		l->sizes = w->words + word;
		word += l->nbufs;
		name += l->nbufs;
	}
}

static void clear(Work *w)
{
	w->n = 0;
	w->nwords = w->nnames = w->nparams = 0;
}

static void release(Work *w)
{
	free(w->at);
	free(w->words);
	free(w->names);
	free(w->params);
	*w = (Work){0};
}

static bool same_work(const TccWork *a, const TccWork *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind != TCC_WORK_LAUNCH)
		return a->dst == b->dst && a->src == b->src && a->bytes == b->bytes;
	return a->launch.kernel == b->launch.kernel && a->nparams == b->nparams &&
	       a->launch.nbufs == b->launch.nbufs &&
	       !memcmp(a->launch.grid, b->launch.grid, sizeof a->launch.grid);
}

static bool same(const Work *a, const Work *b)
{
	if (a->n != b->n || a->nwords != b->nwords ||
	    (a->nwords && memcmp(a->words, b->words, a->nwords * sizeof *a->words)))
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (!same_work(&a->at[i], &b->at[i]))
			return false;
	return true;
}

/* --- the queue ------------------------------------------------------------------------------- */

static int open_queue(TccContext *ctx)
{
	int rc = tcc_stage_new(ctx);
	if (rc || !tcc_ops(ctx)->graph_new || ctx->inst->options.profile & TCC_PROFILE_KERNELS)
		return rc;
	ctx->queue = calloc(1, sizeof *ctx->queue);
	return ctx->queue ? 0 : tcc_no_memory(&ctx->err, sizeof *ctx->queue);
}

static void close_queue(TccContext *ctx)
{
	TccQueue *q = ctx->queue;
	if (!q)
		return;
	for (int i = 0; i < GRAPHS; i++) {
		if (q->graphs[i].handle)
			tcc_ops(ctx)->graph_free(ctx->inst->dev, q->graphs[i].handle);
		release(&q->graphs[i].work);
	}
	release(&q->work);
	free(q);
	ctx->queue = NULL;
}

static void drop(TccContext *ctx)
{
	if (ctx->queue)
		clear(&ctx->queue->work);
}

static int issue_all(TccContext *ctx, const Work *w)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < w->n; i++)
		rc = tcc_issue(ctx->inst->dev, ctx->stream, &w->at[i],
		               i && w->at[i - 1].kind == TCC_WORK_LAUNCH, &ctx->err);
	return rc;
}

static Graph *find(TccQueue *q)
{
	for (int i = 0; i < GRAPHS; i++)
		if (q->graphs[i].used && same(&q->graphs[i].work, &q->work))
			return &q->graphs[i];
	return NULL;
}

/* Keeps the list that was just issued, in the place of the one unused for longest. */
static void keep(TccContext *ctx)
{
	TccQueue *q = ctx->queue;
	Graph *g = &q->graphs[0];
	for (int i = 1; i < GRAPHS; i++)
		if (q->graphs[i].used < g->used)
			g = &q->graphs[i];
	if (g->handle)
		tcc_ops(ctx)->graph_free(ctx->inst->dev, g->handle);
	Work old = g->work;
	*g = (Graph){.work = q->work, .used = ++q->clock};
	q->work = old;
}

static int replay(TccContext *ctx, Graph *g)
{
	TccQueue *q = ctx->queue;
	TccDevice *dev = ctx->inst->dev;
	TccErr why = {0};
	g->used = ++q->clock;
	if (!g->handle)
		tcc_lanes(ctx->inst->kernels, g->work.at, g->work.n);
	if (!g->handle &&
	    dev->ops->graph_new(dev, ctx->stream, g->work.at, g->work.n, &g->handle, &why)) {
		g->handle = NULL;
		q->refused = true;
		return issue_all(ctx, &q->work);
	}
	return dev->ops->graph_launch(dev, ctx->stream, g->handle, &ctx->err);
}

static int flush(TccContext *ctx)
{
	TccQueue *q = ctx->queue;
	int rc;
	if (!q || !q->work.n)
		return 0;
	settle(&q->work);
	bool worth = q->work.n >= WORTH && !q->refused;
	Graph *g = worth ? find(q) : NULL;
	if (g)
		rc = replay(ctx, g);
	else if (!(rc = issue_all(ctx, &q->work)) && worth)
		keep(ctx);
	clear(&q->work);
	if (rc)
		ctx->run.status = ctx->err.code;
	return rc;
}

static int wait(TccContext *ctx)
{
	TccDevice *dev = ctx->inst->dev;
	int rc = flush(ctx);
	return rc ? rc : dev->ops->sync(dev, ctx->stream, &ctx->err);
}

static int no_room(TccContext *ctx)
{
	int rc = tcc_no_memory(&ctx->err, ctx->queue->work.n * sizeof(TccWork));
	ctx->run.status = rc;
	return rc;
}

static int launch(TccContext *ctx, const TccLaunch *l, uint32_t nparams)
{
	ctx->peek_at = NULL;
	if (!ctx->queue)
		return tcc_ops(ctx)->launch(ctx->inst->dev, ctx->stream, l, &ctx->err);
	Work *w = &ctx->queue->work;
	if (!grow(w, nparams + l->nbufs + l->nmaps * (uint64_t)TCC_MAP_WORDS, l->nbufs, nparams))
		return no_room(ctx);
	w->at[w->n++] = (TccWork){.kind = TCC_WORK_LAUNCH, .launch = *l, .nparams = nparams};
	for (uint32_t i = 0; i < nparams; i++) {
		uint32_t n = param_words(l, nparams, i);
		memcpy(&w->words[w->nwords], l->params[i], n * sizeof *w->words);
		w->nwords += n;
	}
	for (uint32_t i = 0; i < l->nbufs; i++) {
		w->words[w->nwords++] = l->sizes[i];
		w->names[w->nnames++] = l->names[i];
	}
	w->nparams += nparams;
	return 0;
}

static int move(TccContext *ctx, TccWorkKind kind, void *dst, const void *src, uint64_t bytes)
{
	TccWork x = {.kind = kind, .dst = dst, .src = src, .bytes = bytes};
	ctx->peek_at = NULL;
	if (!ctx->queue)
		return tcc_issue(ctx->inst->dev, ctx->stream, &x, false, &ctx->err);
	Work *w = &ctx->queue->work;
	if (!grow(w, 0, 0, 0))
		return no_room(ctx);
	w->at[w->n++] = x;
	return 0;
}

const TccQueueOps tcc_queue_ops = {
	.open = open_queue,
	.close = close_queue,
	.drop = drop,
	.send = tcc_stage_send,
	.need = tcc_stage_need,
	.kernel = tcc_launch_device,
	.launch = launch,
	.move = move,
	.flush = flush,
	.wait = wait,
	.receive = tcc_stage_receive,
};
