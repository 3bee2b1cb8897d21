/*
 * What the lanes of a warp do together, and copies that land later: the services of the device
 * dialect beyond barriers. The last lane to come does the work; the others wait in their fibers,
 * so that their operands, on their stacks, stay valid.
 */
#include "sim_impl.h"

#include <stdlib.h>
#include <string.h>

void sim_warp_start(Warp *w, int first, int size)
{
	w->first = first;
	w->size = w->ready = size;
	w->arrived = w->parity = 0;
	w->pos = sim_run.sim->config.warp - 1;
	for (int i = first; i < first + size; i++) {
		Thread *t = &sim_run.threads[i];

		t->state = T_NEW;
		t->wseg = 0;
		t->segment = t->fenced = 0;
		t->nshared = t->ncopies = 0;
		t->group = 0;
	}
}

static Warp *my_warp(void)
{
	return &sim_run.warps[sim_run.cur->warp];
}

/*
 * Meets the other lanes; true for the last to come, which then must call release. The others
 * return false after the release.
 */
static bool meet(Meeting what, void *operand, const void *pc)
{
	Launch *r = &sim_run;
	Thread *t = r->cur, *first;
	Warp *w = my_warp();

	t->pc = pc;
	t->meeting = (uint8_t)what;
	t->operand = operand;
	if (++w->arrived < w->size) {
		sim_sched_wait(T_AT_WARP);
		return false;
	}
	first = &r->threads[w->first];
	for (int i = 0; i < w->size; i++)
		if (first[i].pc != pc || first[i].meeting != what) {
			sim_find_at("divergence", pc, "lanes %d and %d of a warp meet at different "
				"places", t->lane, i);
			sim_sched_stop();
		}
	w->arrived = 0;
	return true;
}

static void release(void)
{
	sim_sched_wake_warp(my_warp());
}

void tcc_sim_warp_barrier(void)
{
	Warp *w = my_warp();

	if (!meet(M_WARP_BARRIER, NULL, __builtin_return_address(0)))
		return;
	for (int i = 0; i < w->size; i++)
		sim_run.threads[w->first + i].wseg++;
	sim_async_warp_barrier(w);
	release();
}

static uint64_t shuffle(uint64_t bits, int lane, const void *pc)
{
	Launch *r = &sim_run;
	Thread *t = r->cur;
	Warp *w = my_warp();
	uint64_t *slots = w->slots[w->parity];

	if (lane < 0 || lane >= w->size) {
		sim_find_at("divergence", pc, "lane %d reads lane %d of a warp of %d", t->lane,
			lane, w->size);
		sim_sched_stop();
	}
	slots[t->lane] = bits;
	if (meet(M_SHUFFLE, NULL, pc)) {
		/* the next shuffle fills the other half while lanes still read this one */
		w->parity ^= 1;
		r->c->shuffles++;
		release();
	}
	return slots[lane];
}

uint64_t tcc_sim_shfl_xor(uint64_t bits, int32_t mask)
{
	return shuffle(bits, sim_run.cur->lane ^ mask, __builtin_return_address(0));
}

uint64_t tcc_sim_shfl(uint64_t bits, int32_t lane)
{
	return shuffle(bits, lane, __builtin_return_address(0));
}

/* --- asynchronous copies ----------------------------------------------------------------- */

void tcc_sim_cp_async(void *dst, const void *src, int32_t bytes, int32_t keep)
{
	Launch *r = &sim_run;
	Thread *t = r->cur;
	const void *pc = __builtin_return_address(0);
	uint64_t low = ((uint64_t)dst | (keep ? (uint64_t)src : 0)) & (uint64_t)(bytes - 1);

	if (r->traced && low) {
		sim_find_at("alignment", pc, "asynchronous copy of %d bytes to %p from %p", bytes,
			dst, src);
		sim_sched_stop();
	}
	if (r->traced && ((keep && !sim_trace_access(src, (uint64_t)bytes, A_READ, pc)) ||
	    !sim_trace_copy_issue(dst, (uint32_t)bytes, pc)))
		return;
	if (t->ncopies == t->cap) {
		int cap = t->cap ? t->cap * 2 : 16;
		Copy *list = realloc(t->copies, (size_t)cap * sizeof *list);

		if (!list) {
			r->failed = true;
			sim_sched_stop();
			return;
		}
		t->copies = list;
		t->cap = cap;
	}
	t->copies[t->ncopies++] = (Copy){ dst, keep ? src : NULL, (uint32_t)bytes, t->group };
	r->c->cp_async += t->lane == 0;
}

void tcc_sim_cp_commit(void)
{
	sim_run.cur->group++;
}

/* 0 means all, committed or not: cp.async.wait_all. */
void tcc_sim_cp_wait(int32_t pending)
{
	Thread *t = sim_run.cur;
	int kept = 0;

	for (int i = 0; i < t->ncopies; i++) {
		Copy *c = &t->copies[i];

		if (pending && c->group + (uint32_t)pending >= t->group) {
			t->copies[kept++] = *c;
			continue;
		}
		if (c->src)
			memcpy(c->dst, c->src, c->bytes);
		else
			memset(c->dst, 0, c->bytes);
		if (sim_run.traced)
			sim_trace_copy_land(c->dst, c->bytes);
	}
	t->ncopies = kept;
}

/* --- matrix fragments --------------------------------------------------------------------- */

static bool whole_warp(const char *what, const void *pc)
{
	if (my_warp()->size == sim_run.sim->config.warp)
		return true;
	sim_find_at("divergence", pc, "%s in a warp of %d lanes", what, my_warp()->size);
	sim_sched_stop();
	return false;
}

void tcc_sim_mma(const char *name, void *c, const uint32_t *a, const uint32_t *b)
{
	const void *pc = __builtin_return_address(0);
	SimFragments x = { c, a, b };
	const SimFragments *lane[MAX_WARP];
	const Warp *w = my_warp();

	if (!whole_warp("mma", pc) || !meet(M_MMA, &x, pc))
		return;
	for (int l = 0; l < w->size; l++)
		lane[l] = sim_run.threads[w->first + l].operand;
	if (!sim_matrix(name, w->size, lane)) {
		sim_find_at("divergence", pc, "no matrix instruction %s in a warp of %d", name, w->size);
		sim_sched_stop();
	}
	sim_run.c->mma++;
	release();
}

typedef struct RowOperand {
	uint32_t *r;
	const uint8_t *row;
} RowOperand;

static void ldmatrix(const Warp *w, bool trans)
{
	const Thread *t = &sim_run.threads[w->first];

	for (int l = 0; l < 32; l++)
		for (int m = 0; m < 4; m++) {
			uint32_t *out = &((const RowOperand *)t[l].operand)->r[m];

			for (int i = 0; i < 2; i++) {
				int row = trans ? 2 * (l & 3) + i : l >> 2;
				int col = trans ? l >> 2 : 2 * (l & 3) + i;
				const RowOperand *from = t[8 * m + row].operand;

				memcpy((uint8_t *)out + 2 * i, from->row + 2 * col, 2);
			}
		}
}

void tcc_sim_ldmatrix(uint32_t *out, const void *row, int32_t trans)
{
	Launch *r = &sim_run;
	const void *pc = __builtin_return_address(0);
	RowOperand x = { out, row };

	if (r->traced && (uint64_t)row & 15) {
		sim_find_at("alignment", pc, "ldmatrix row at %p", row);
		sim_sched_stop();
	}
	if (!whole_warp("ldmatrix", pc) || !sim_trace_access(row, 16, A_READ, pc))
		return;
	if (!meet(M_LDMATRIX, &x, pc))
		return;
	ldmatrix(my_warp(), trans != 0);
	r->c->ldmatrix++;
	release();
}
