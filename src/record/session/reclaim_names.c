/*
 * Reclaiming of names that only cleared phases used.
 *
 * A thread that has found a name is in a section until it has noted the name or has it among its
 * open scopes. Reclaiming therefore takes these steps:
 *
 * 1. Set the state of unneeded names to leaving.
 * 2. Wait until every thread has left its current section.
 * 3. Look at the threads' open scopes.
 * 4. Remove names that are still leaving. No thread finds them from then on.
 * 5. Wait again, for threads that have found such a name and still read its text.
 *
 * Entering a section is a plain store. The memory barrier that has to follow it is here: a system
 * call that makes every thread of the process execute one. Without that call no name is reused.
 */
#include "record/session/session_parts.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "record/names/frames.h"
#include "record/sets/session.h"
#include "record/thread/thread.h"

/* From <linux/membarrier.h>, which older systems lack. */
#define MEMBARRIER_PRIVATE_EXPEDITED 8
#define MEMBARRIER_REGISTER_PRIVATE_EXPEDITED 16

#define SKIP_MAX 64u
/* A section is short, but its thread may be stopped, or wait in a handler: try again later. */
#define WAIT_NS 200000000ull

/* Guarded by the registry. */
static uint64_t done;      /* number of names at the last removal */
static uint32_t last_tick; /* first_kept_tick() of the last attempt */
static uint32_t failures;  /* attempts since then that removed none */
static uint32_t taken_out; /* list of names that a thread may still have found */
static uint32_t skip;      /* number of attempts to skip */

static uint64_t names_so_far(void)
{
	return reused_names_made() + name_limits_counted(LIMITS_FOLDED);
}

static bool is_due(void)
{
	const struct limits *limits = &name_limits;
	uint32_t smallest = limits->children;

	if (limits->contexts < smallest)
		smallest = limits->contexts;
	if (limits->names < smallest)
		smallest = limits->names;
	return names_so_far() - done >= smallest / 2;
}

/* Every live session keeps only data from this tick or later. */
static uint32_t first_kept_tick(void)
{
	uint32_t first = UINT32_MAX;

	for (struct session *session = NULL; (session = registry_lock_next(session));) {
		uint32_t tick = store_phase_first_kept_tick(&session->store);

		if (tick < first)
			first = tick;
	}
	return first == UINT32_MAX ? 0 : first;
}

static bool wait_for_sections(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0 ||
	    syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) != 0)
		return false;
	return thread_wait_sections(WAIT_NS);
}

/* False if no name is unneeded. */
static bool take_out(uint32_t limit)
{
	bool has_any = scope_names_mark(limit);
	bool is_settled = (has_any || taken_out) && wait_for_sections();

	if (is_settled) {
		thread_note_open();
		scope_names_give(taken_out);
		taken_out = 0;
	}
	if (has_any)
		taken_out = scope_names_unlist(limit, taken_out, !is_settled);
	if (!is_settled || !taken_out)
		return false;
	if (wait_for_sections()) {
		scope_names_give(taken_out);
		taken_out = 0;
	}
	return true;
}

void reclaim_names(void)
{
	if (!is_due() || thread_is_in_section())
		return;
	uint32_t limit = first_kept_tick();
	if (limit == last_tick)
		return;
	/* If all names of a program recur, do not scan them at every clear. */
	if (skip) {
		skip--;
		return;
	}
	last_tick = limit;
	if (take_out(limit)) {
		done = names_so_far();
		failures = 0;
	} else {
		skip = failures < SKIP_MAX ? failures : SKIP_MAX;
		failures = failures < SKIP_MAX ? 2 * failures + 1 : SKIP_MAX;
	}
}
