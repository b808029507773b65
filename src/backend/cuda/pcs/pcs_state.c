/* PC sampling: its shared state, and the gate that its changes close. */
#include <unistd.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/pcs/pcs_parts.h"
#include "base/clock.h"

#define UNSEEN_NS 20000000ull /* time of a call that began before calls are counted */

pthread_mutex_t pcs_lock = PTHREAD_MUTEX_INITIALIZER;
struct pcs_context pcs_contexts[PCS_CONTEXTS_MAX];
struct pcs_mode pcs_mode;
struct pcs_statistics pcs_statistics;

static uint64_t counted_ns; /* since when calls are counted; guarded by pcs_lock */

void pcs_state_count_calls(void)
{
	call_gate_reset(CALL_GATE_LAUNCH);
	counted_ns = clock_monotonic_ns();
}

/* Threads that are not held may be in a call that began before. */
static void await_unseen(void)
{
	uint64_t spent_ns = clock_monotonic_ns() - counted_ns;

	if (spent_ns < UNSEEN_NS)
		usleep((useconds_t)((UNSEEN_NS - spent_ns) / 1000));
}

bool pcs_state_close_gate(uint64_t limit_ns)
{
	await_unseen();
	return call_gate_close(CALL_GATE_SAMPLING, limit_ns);
}

bool pcs_state_close_gate_between_captures(uint64_t limit_ns)
{
	await_unseen();
	return call_gate_close_between_captures(CALL_GATE_SAMPLING, limit_ns);
}
