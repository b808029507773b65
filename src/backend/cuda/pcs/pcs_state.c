/* PC sampling: its shared state, and the gate that its changes close. */
#include <unistd.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/callbacks.h"
#include "backend/cuda/pcs/pcs_parts.h"
#include "base/clock.h"

#define QUERY_NS 20000000ull    /* time of a query that began before queries are watched */
#define WATCHED_NS 200000000ull /* queries are watched after a change */

pthread_mutex_t pcs_lock = PTHREAD_MUTEX_INITIALIZER;
struct pcs_context pcs_contexts[PCS_CONTEXTS_MAX];
struct pcs_mode pcs_mode;
struct pcs_statistics pcs_statistics;

static uint64_t watched_ns; /* since when queries are watched; 0: not; guarded by pcs_lock */

/*
 * Functions are asked for their attributes hundreds of times in a step of a training; these calls
 * may load a module, but only the first for each function does. So they are watched only while the
 * gate closes: at changes, which are rare.
 */
void pcs_state_watch_queries(void)
{
	if (watched_ns)
		return;
	call_gate_reset(CALL_GATE_QUERY);
	callbacks_watch_queries(true);
	watched_ns = clock_monotonic_ns();
}

static void watch_calls(void)
{
	uint64_t spent_ns;

	pcs_state_watch_queries();
	spent_ns = clock_monotonic_ns() - watched_ns;
	/*
	 * Threads that are not held may be in a launch that began before CUPTI was attached, too.
	 */
	if (spent_ns < QUERY_NS)
		usleep((useconds_t)((QUERY_NS - spent_ns) / 1000));
}

bool pcs_state_close_gate(uint64_t limit_ns)
{
	watch_calls();
	return call_gate_close(CALL_GATE_SAMPLING, limit_ns);
}

bool pcs_state_close_gate_to_disable(uint64_t limit_ns)
{
	watch_calls();
	return call_gate_close_between_captures(CALL_GATE_SAMPLING, limit_ns);
}

void pcs_state_unwatch_queries(void)
{
	if (watched_ns)
		callbacks_watch_queries(false);
	watched_ns = 0;
}

void pcs_state_relax(void)
{
	/* Windows close the gate all the time. */
	if (!watched_ns || pcs_mode.window_ns || clock_monotonic_ns() - watched_ns < WATCHED_NS)
		return;
	pcs_state_unwatch_queries();
}
