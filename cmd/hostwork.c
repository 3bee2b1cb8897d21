/*
 * What a GPU's plan leaves to the host: elements that it must fetch from the device to go on (sizes
 * that data settle, conditions), for each of which the device runs dry, and routines for what is
 * not data-parallel, whose operands and results go there and back.
 */
#include <string.h>
#include "cmd.h"
#include "ir/plan.h"

/* Neighbouring loads from one buffer are one transfer; constants and what the caller gives are
 * on the host. */
static bool
fetches(const Plan *p, const Node *s, int64_t *last)
{
	int64_t b;

	if (s->code != O_CALL || strcmp(s->name, "load") || !is_int(s->in[0], &b) || b < 0 ||
			b >= p->nbufs)
		return false;
	if (b == *last)
		return false;
	*last = b;
	return p->bufs[b].cls != BUF_CONST && p->bufs[b].cls != BUF_INPUT && p->bufs[b].cls != BUF_HOST
		&& p->bufs[b].cls != BUF_VALUE;
}

static void
note_routine(HostWork *w, const char *name)
{
	int i;

	for (i = 0; i < w->nroutines && strcmp(w->routines[i], name); i++)
		;
	if (i == w->nroutines && i < MAX_ROUTINES)
		w->routines[w->nroutines++] = name;
}

static void
walk(const Plan *p, const Region *r, bool loop, HostWork *w)
{
	int64_t last = -1;
	int i, k;

	for (i = 0; i < r->nresults; i++) {
		const Node *s = r->results[i];
		if (fetches(p, s, &last)) {
			w->waits++;
			w->waits_in_loops += loop;
		}
		if (s->code == O_CALL && strncmp(s->name, "host.", 5) == 0)
			note_routine(w, s->name + 5);
		if (s->code == O_CALL && (strcmp(s->name, "launch") == 0 || strcmp(s->name, "copy") == 0))
			last = -1;
		for (k = 0; k < s->nregions; k++)
			if (s->regions[k])
				walk(p, s->regions[k], loop || s->code == O_WHILE, w);
	}
}

HostWork
host_work(Module *m)
{
	HostWork w = {0};

	if (m->plan && m->memory && m->machine && machine_gpu(m->machine))
		walk(m->memory, m->plan, false, &w);
	return w;
}

/* Nothing where there is nothing. */
const char *
host_work_text(Module *m, const HostWork *w)
{
	const char *s = "", *list = "";
	int i;

	if (w->waits)
		s = arena_printf(m->arena, "the host waits for the device at %d place%s%s", w->waits,
			w->waits == 1 ? "" : "s",
			w->waits_in_loops ? arena_printf(m->arena, ", %d of them in loops", w->waits_in_loops)
			: "");
	for (i = 0; i < w->nroutines; i++)
		list = arena_printf(m->arena, "%s%s%s", list, i ? ", " : "", w->routines[i]);
	if (w->nroutines)
		s = arena_printf(m->arena,
			"%s%soperands and results are copied for routines of the host: %s", s, *s ? "; " : "",
			list);
	return s;
}

void
host_work_json(const HostWork *w, cJSON *j)
{
	cJSON *list;
	int i;

	json_real(j, "host_waits", w->waits);
	json_real(j, "host_waits_in_loops", w->waits_in_loops);
	list = json_list(j, "host_routines");
	for (i = 0; i < w->nroutines; i++)
		json_add_text(list, w->routines[i]);
}
