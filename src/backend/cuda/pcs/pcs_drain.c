/*
 * Thread that reads PC samples. CUPTI decodes them in the background; this thread fetches them
 * every few milliseconds. In windows, it starts and stops sampling.
 */
#include "backend/cuda/call_gate.h"
#include "backend/cuda/pcs/pcs_parts.h"
#include "backend/gpu/flush_thread.h"
#include "backend/gpu/launches.h"
#include "base/clock.h"
#include "base/message.h"

#define TICK_NS 20000000ull
#define READ_MAX_NS 160000000ull /* between two reads, if they have few PCs */
#define READ_FEW (PCS_CONFIGURED_PCS / 4)
#define READ_MANY (PCS_CONFIGURED_PCS / 2)
#define CLOSE_NS 50000000ull /* to wait for threads that launch or load modules */

static struct periodic_thread thread;

/* The number of PCs that were read, of all contexts; SIZE_MAX: the next round has to try again. */
static size_t read_all(void)
{
	size_t count = 0;
	bool is_full = false;

	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++) {
		struct pcs_context *context = &pcs_contexts[i];

		if (context->context && !context->is_full)
			count += pcs_context_read(context);
		/* If a thread does not end its launch in time, the next round tries again. */
		if (context->context && context->is_full &&
		    pcs_state_close_gate_between_captures(CLOSE_NS)) {
			pcs_context_raise_period(context);
			call_gate_open();
		}
		is_full |= context->context && context->is_full;
	}
	return is_full ? SIZE_MAX : count;
}

/*
 * CUPTI's calls may wait for one another, and the launches of the program for them. CUPTI sums what
 * it decodes by PC, in a buffer that has to suffice until the next read: few PCs may wait longer.
 * After a pause many may come.
 */
static uint64_t next_interval(uint64_t interval_ns, size_t count)
{
	if (pcs_mode.windows.length_ns || pcs_mode.is_serialized || !count || count > READ_MANY)
		return TICK_NS;
	if (count < READ_FEW && interval_ns < READ_MAX_NS)
		return 2 * interval_ns;
	return interval_ns;
}

static void begin_or_end_all(bool is_begin)
{
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++) {
		if (!pcs_contexts[i].context)
			continue;
		if (!is_begin)
			pcs_context_end(&pcs_contexts[i]);
		else if (pcs_context_begin(&pcs_contexts[i]) != CUPTI_OK)
			message_once("PC sampling does not start again after a window");
	}
}

/* State of windows. A window without launches stays open: it costs nothing. */
struct windows {
	bool is_open;
	uint64_t launched;  /* launches_count() when it was opened */
	uint32_t shared;    /* launches_last_shared() */
	uint64_t active_ns; /* since when something has been launched in it; 0: nothing yet */
};

/* Opens or closes the window if it is time; returns ns until the next check. */
static uint64_t move_window(struct windows *windows)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t length_ns = windows->is_open ? pcs_mode.windows.length_ns
					      : pcs_mode.windows.distance_ns;

	if (windows->is_open && !windows->active_ns) {
		if (windows->launched == launches_count() &&
		    windows->shared == launches_last_shared())
			return TICK_NS / 2;
		windows->active_ns = now_ns;
	}
	if (now_ns - windows->active_ns < length_ns) {
		uint64_t left_ns = windows->active_ns + length_ns - now_ns;

		return left_ns < TICK_NS ? left_ns : TICK_NS;
	}
	if (!pcs_state_close_gate(CLOSE_NS))
		return TICK_NS / 2; /* a thread is still launching, or loads a module */
	windows->is_open = !windows->is_open;
	begin_or_end_all(windows->is_open);
	call_gate_open();
	if (windows->is_open) {
		windows->launched = launches_count();
		windows->shared = launches_last_shared();
		windows->active_ns = 0;
	}
	return TICK_NS / 2;
}

static void *run_thread(void *unused)
{
	struct windows windows = {
		.is_open = true, .launched = launches_count(), .shared = launches_last_shared()};
	uint64_t next_ns = TICK_NS;
	uint64_t waited_ns = 0; /* since the last read */
	uint64_t interval_ns = TICK_NS;

	(void)unused;
	while (periodic_thread_wait(&thread, next_ns)) {
		uint64_t start_ns = clock_thread_ns();

		pthread_mutex_lock(&pcs_lock);
		waited_ns += next_ns;
		next_ns = pcs_mode.windows.length_ns ? move_window(&windows) : TICK_NS;
		if (pcs_mode.windows.length_ns || waited_ns >= interval_ns) {
			interval_ns = next_interval(interval_ns, read_all());
			waited_ns = 0;
		}
		pcs_modules_tick();
		pcs_statistics.drain_ns += clock_thread_ns() - start_ns;
		pthread_mutex_unlock(&pcs_lock);
	}
	return NULL;
}

void pcs_drain_start(void)
{
	periodic_thread_start(&thread, run_thread);
}

void pcs_drain_stop(void)
{
	periodic_thread_stop(&thread);
}
