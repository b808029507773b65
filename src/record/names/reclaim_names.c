/*
 * Making room for names without end. See reclaim_names.h.
 *
 * A thread that has found a name is in a section until it has noted it or has it among its open
 * scopes. So: mark the names that are not needed; wait until every thread has left the section that
 * it may have been in; look at the threads' open scopes; take out what is still marked, and nobody
 * finds it from then on; wait once more, for those who have found it and still read its text.
 *
 * Entering a section is a plain store. The barrier that would have to follow it is here: a system
 * call makes every thread of the process pass one. Without that call no name is used again.
 */
#include "record/names/reclaim_names.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/names/frames.h"
#include "record/names/name_limits.h"
#include "record/names/reused_names.h"
#include "record/session/registry.h"
#include "record/thread/thread.h"

/* Of <linux/membarrier.h>, which older systems lack. */
#define MEMBARRIER_PRIVATE_EXPEDITED 8
#define MEMBARRIER_REGISTER_PRIVATE_EXPEDITED 16

#define SKIP_MAX 64u
/*
 * A section is short. But its thread may have been stopped, or run a handler of a signal that waits
 * for the registry: then there is another time.
 */
#define WAIT_NS 200000000ull

/* Guarded by the registry. */
static uint64_t done;      /* names that had come when some were last taken out */
static uint32_t last_tick; /* first_kept_tick() of the last attempt */
static uint32_t failures;  /* attempts since then that took none out */
static uint32_t taken_out; /* a list: names that a thread may still have found */
static uint32_t skip;      /* so many times there is no attempt */

static uint64_t names_so_far(void)
{
	return names_made() + limits_folded();
}

static bool is_due(void)
{
	const struct limits *limits = limits_get();
	uint32_t smallest = limits->children;

	if (limits->contexts < smallest)
		smallest = limits->contexts;
	if (limits->names < smallest)
		smallest = limits->names;
	return names_so_far() - done >= smallest / 2;
}

/* Every live session keeps only what began at this tick or later. */
static uint32_t first_kept_tick(void)
{
	uint32_t first = UINT32_MAX;

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		struct session *session = &registry.sessions[slot];

		pthread_mutex_lock(&session->lock);
		if (session->is_live) {
			uint32_t tick = store_first_kept_tick(&session->store);

			if (tick < first)
				first = tick;
		}
		pthread_mutex_unlock(&session->lock);
	}
	return first == UINT32_MAX ? 0 : first;
}

static bool wait_for_sections(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0 ||
	    syscall(SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) != 0)
		return false;
	return threads_wait_sections(WAIT_NS);
}

/* False if there is no name that is not needed. */
static bool take_out(uint32_t limit)
{
	bool has_any = frames_reuse_mark(limit);
	bool is_settled = (has_any || taken_out) && wait_for_sections();

	if (is_settled) {
		threads_note_open();
		frames_reuse_give(taken_out);
		taken_out = 0;
	}
	if (has_any)
		taken_out = frames_reuse_unlist(limit, taken_out, !is_settled);
	if (!is_settled || !taken_out)
		return false;
	if (wait_for_sections()) {
		frames_reuse_give(taken_out);
		taken_out = 0;
	}
	return true;
}

void reuse_names(void)
{
	uint32_t limit;

	if (!is_due() || thread_is_in_section())
		return;
	limit = first_kept_tick();
	if (limit == last_tick)
		return;
	/* A program whose names all recur does not look at them each time that it clears. */
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

bool reuse_in_sessions(uint32_t frame, bool has_moved)
{
	bool has_room = true;

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		struct session *session = &registry.sessions[slot];

		if (!session->is_live)
			continue;
		pthread_mutex_lock(&session->lock);
		if (session->is_live)
			has_room &= store_rename(&session->store, frame, has_moved);
		pthread_mutex_unlock(&session->lock);
	}
	return has_room;
}
