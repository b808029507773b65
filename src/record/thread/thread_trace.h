/*
 * What a session with data="trace" records beside its tree: events of the program's threads, that
 * is scopes, launches and kernels of the host, written by the threads themselves. (What ran on a
 * device is written by the store that adds it up, store_event.c.)
 *
 * A thread writes into rows of the session's file that it reserved in advance, so an event costs
 * two readings of the clock and the thread's own lock, which only the end of a session ever
 * contends for.
 */
#ifndef RECORD_THREAD_THREAD_TRACE_H
#define RECORD_THREAD_THREAD_TRACE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <libproton/proton.h>

#include "format/rows.h"

#define TRACE_MAX 4u /* traces that are live at a time */

struct config;
struct store;

/* An event that a thread has begun: its row in each trace that was active then. */
struct trace_event {
	uint32_t count;
	struct {
		uint32_t serial; /* of the session */
		uint32_t row;
	} at[TRACE_MAX];
};

/* What a thread keeps for each trace; guarded by the thread's lock. */
struct trace_writer {
	uint32_t serial; /* 0: none; that of a session that has ended is taken away by its end */
	uint32_t lane;
	uint32_t next; /* rows that are reserved and not used yet */
	uint32_t end;
	struct store *store;
};

struct trace_thread {
	atomic_bool is_locked;
	struct trace_thread *next; /* all threads */
	struct trace_thread *previous;
	struct trace_writer writers[TRACE_MAX];
};

static inline void trace_thread_lock(struct trace_thread *thread)
{
	/* acquire: pairs with the release below */
	while (atomic_exchange_explicit(&thread->is_locked, true, memory_order_acquire))
		sched_yield();
}

static inline void trace_thread_unlock(struct trace_thread *thread)
{
	atomic_store_explicit(&thread->is_locked, false, memory_order_release);
}

void trace_thread_add(struct trace_thread *thread);
void trace_thread_remove(struct trace_thread *thread);

struct trace_begin {
	uint16_t kind;   /* enum event_kind */
	uint16_t flags;  /* enum event_flag */
	uint32_t shadow; /* contexts: for sessions made of scopes, ... */
	uint32_t source; /* ... and of call paths */
	uint32_t detail;
	const struct trace_event *launch; /* that it belongs to, or NULL */
	uint64_t start_ns;                /* monotonic */
};

/* On the thread itself. The event is empty if there was no room, which is counted as a loss. */
void trace_begin(struct trace_thread *thread, const struct config *config,
		 const struct trace_begin *begin, struct trace_event *event);
/* Ends it in the sessions that still live, and empties it. `end_ns` is monotonic. */
void trace_end(struct trace_thread *thread, struct trace_event *event, uint64_t end_ns);
/* Gives a launch its correlation id, unless it has one. */
void trace_set_detail(struct trace_thread *thread, const struct trace_event *event,
		      uint32_t detail);

/* The event's row in the session of that serial; 0 if it has none. */
static inline uint32_t trace_row(const struct trace_event *event, uint32_t serial)
{
	for (uint32_t i = 0; event && i < event->count; i++)
		if (event->at[i].serial == serial)
			return event->at[i].row;
	return 0;
}

/* No thread writes into trace `index` any more when it returns; its session is not live. */
void trace_close(uint32_t index);

/* Calls `visit` for each thread; none comes or goes meanwhile. */
void trace_each_thread(void (*visit)(struct trace_thread *thread));

/* Waits until every thread has left what it is in the middle of under its own lock. */
void trace_settle(void);

/* What to add to a monotonic time to have Unix time: one number for the life of the process. */
uint64_t trace_unix_offset_ns(void);

void trace_fork_prepare(void);
void trace_fork_parent(void);
/* `own` is the calling thread's, or NULL. */
void trace_fork_child(struct trace_thread *own);

#endif
