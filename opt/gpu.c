/* GPU schedules. */
#include "sched.h"

Kernel *
schedule_gpu(Sched *s, Group *g)
{
	diag_error(s->m->diag, X_UNSUPPORTED, g->loc, "GPU schedules are not there yet");
	return NULL;
}
