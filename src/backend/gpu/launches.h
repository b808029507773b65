/*
 * The work of an API callback at a call that launches something, on the application's thread: it
 * finds the thread's context and stores it under the correlation ID that the records will carry.
 * Vendor-neutral; at most one backend of a GPU vendor uses it at a time.
 */
#pragma once

#include "base/clock.h"
#include "record/sets/session.h"
#include "record/thread/record_launch.h"

/* How many records a call makes. */
enum launch_records {
	LAUNCH_ONE,  /* one, which a flush waits for */
	LAUNCH_MANY, /* an unknown number with the same correlation ID: a graph launch, a batch */
	LAUNCH_ANY,  /* none, or one: a memory copy */
};

struct launch_call {
	uint32_t correlation; /* increases from call to call */
	enum launch_kind kind;
	enum launch_records records;
	const char *kernel; /* its name; NULL: not known */
};

/* The thread's current call. */
struct launches_here {
	bool is_wanted;   /* its record is waited for */
	bool is_captured; /* it made a node of a graph, and has no record */
	bool is_open;     /* it has begun, and not ended */
	uint32_t calls;   /* number of calls, for sampling their cost */
};

extern _Thread_local struct launches_here launches_here SESSION_DIRECT;

/*
 * The call begins, or returns. Only at its end it is known whether records will arrive: none for a
 * call that failed or was captured. Calls while all sessions are paused, and calls of Proton itself
 * (record_own_work_begin()), are stored too, without sessions: their records are then known and
 * ignored. Begin returns where the call is attributed.
 */
struct proton_context launches_begin(const struct launch_call *call);
void launches_end(const struct launch_call *call, bool has_failed);
/* Before the end of a call that may have failed: its record is taken, but not waited for. */
void launches_doubt(const struct launch_call *call);

/* More work than the current call was thought to make: one more record, without an event. */
void launches_add(uint32_t correlation);

/* The current call of this thread makes a node of a graph instead of work. */
static inline void launches_set_captured(void)
{
	launches_here.is_captured = true;
}

/* The start of a callback with a sampled cost, until launches_timer_end(). */
struct launches_timer {
	uint32_t weight; /* number of calls that it stands for; 0: it is not timed */
	uint64_t start_ns;
};

#define LAUNCHES_SAMPLE_PERIOD 1024u

/* The number of calls that the thread's call `number` stands for; 0: it is not timed. */
static inline uint32_t launches_sample_weight(uint32_t number)
{
	if (number > LAUNCHES_SAMPLE_PERIOD)
		return number % LAUNCHES_SAMPLE_PERIOD ? 0 : LAUNCHES_SAMPLE_PERIOD;
	return number & (number - 1) ? 0 : number < 2 ? number : number / 2;
}

/*
 * Reading the clock costs as much as the callback. So every LAUNCHES_SAMPLE_PERIOD-th call of a
 * thread is timed and stands for those since the previous one. At the beginning the distances
 * double, which gives short runs an estimate too.
 */
static inline struct launches_timer launches_timer_begin(bool is_enter)
{
	uint32_t number = launches_here.calls += is_enter;
	uint32_t weight = launches_sample_weight(number);

	return (struct launches_timer){weight, weight ? clock_monotonic_ns() : 0};
}

void launches_add_cost(struct launches_timer timer);

static inline void launches_timer_end(struct launches_timer timer)
{
	if (timer.weight)
		launches_add_cost(timer);
}

void launches_start(void);
void launches_stop(void);
/* A launch while nothing is recorded, which may have a record all the same: it is older, below. */
void launches_skip(uint32_t correlation);
/* After the last session: forgets work in flight, captures and device metrics. */
void launches_clear(void);
/* Number of kernel launches that began while some session was active and have returned. */
uint64_t launches_count(void);
/* The last call with an unknown number of records; 0: none. */
uint32_t launches_last_shared(void);
/* True if this launch was made before the first call since the start: it belongs to no session. */
bool launches_is_older(uint32_t correlation);
/* Estimated time in ns that callbacks have cost the application's threads since the start. */
uint64_t launches_cost_ns(void);

/* Set of contexts with launches (on AMD: devices): a flush waits for them. */

/* On the launching thread, at every launch. */
void contexts_note(void *context);
/* Removes a context that is about to be destroyed. */
void contexts_forget(const void *context);
void contexts_clear(void);
/* Waits for each by `synchronize`. False if one cannot be waited for: it may never end. */
bool contexts_synchronize(bool (*synchronize)(void *context));
