/*
 * Trace events of the program's threads in sessions with data="trace": scopes, launches and host
 * kernels, written by the threads themselves. (Events of devices are written by store_event.c.)
 *
 * A thread writes into rows of the session's file that it reserved in advance. An event therefore
 * costs two clock readings and the thread's own lock; only the end of a session ever contends for
 * it.
 */
#pragma once

#include <pthread.h>
#include <sched.h>

#include "format/rows.h"
#include "record/sets/session.h"
#include "record/store/execution.h"

extern pthread_mutex_t thread_trace_list_lock; /* for fork() */

/* Per-thread state of each trace; guarded by the thread's lock. */
struct trace_writer {
	uint32_t serial; /* 0: none; cleared when the session ends */
	uint32_t lane;
	struct reserved_rows events;
	struct reserved_rows samples;
	struct session *session;
};

struct trace_thread {
	atomic_bool is_locked;
	struct trace_thread *next; /* all threads */
	struct trace_thread *previous;
	struct trace_writer writers[TRACE_MAX];
};

static inline void thread_trace_lock(struct trace_thread *thread)
{
	/* acquire: pairs with the release below */
	while (atomic_exchange_explicit(&thread->is_locked, true, memory_order_acquire))
		sched_yield();
}

static inline void thread_trace_unlock(struct trace_thread *thread)
{
	atomic_store_explicit(&thread->is_locked, false, memory_order_release);
}

void thread_trace_add(struct trace_thread *thread);
void thread_trace_remove(struct trace_thread *thread);
/* Call it when the thread ends: others use the rest of its rows. */
void thread_trace_give_back(struct trace_thread *thread);

struct trace_begin {
	uint16_t kind;   /* enum event_kind */
	uint16_t flags;  /* enum event_flag */
	uint32_t shadow; /* context for sessions made of scopes */
	uint32_t source; /* context for sessions made of call paths */
	uint32_t detail;
	const struct trace_event *launch; /* the launch it belongs to, or NULL */
	uint64_t start_ns;                /* monotonic */
};

/* On the thread itself. The event is empty if there was no space, which is counted as a loss. */
void thread_trace_begin(struct trace_thread *thread, const struct config *config,
			const struct trace_begin *begin, struct trace_event *event);
/* Ends it in sessions that are still live, and empties it. `end_ns` is monotonic. */
void thread_trace_end(struct trace_thread *thread, struct trace_event *event, uint64_t end_ns);
/* Gives the thread's `event` in the entry's session, which is live, a value. Locked. */
void thread_trace_add_sample(struct trace_thread *thread, const struct config_entry *entry,
			     uint32_t event, const struct row_value *value);
/* Gives a launch its correlation ID, unless it has one. */
void thread_trace_set_detail(struct trace_thread *thread, const struct trace_event *event,
			     uint32_t detail);

/* When it returns, no thread writes into trace `index`. Its session is not live. */
void thread_trace_close(uint32_t index);

/* Calls `visit` for each thread; no thread is added or removed during that. */
void thread_trace_each(void (*visit)(struct trace_thread *thread));

/* Call it in the child of a fork. `own` is the calling thread's, or NULL. */
void thread_trace_fork_child(struct trace_thread *own);
