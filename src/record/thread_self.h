/*
 * The calling thread's own state, for thread.c (scopes, states), launch.c (ops, launches, host
 * kernels) and adding.c alone; everybody else goes through thread.h. No other thread reads it.
 */
#ifndef RECORD_THREAD_SELF_H
#define RECORD_THREAD_SELF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libproton/proton.h>

#include "record/session.h"
#include "record/trace.h"

#define CACHE_ENTRIES 256u
#define STATE_MAX 16u
#define KERNEL_MAX 16u

struct scope {
	uint32_t context;  /* of the scope */
	uint32_t own;      /* the same below the state of the time: where its metrics go */
	uint64_t start_ns; /* 0: not timed */
	uint32_t serial;   /* of this entry into a scope on this thread; not 0 */
	struct trace_event event;
};

struct state {
	uint32_t frames[2]; /* the second is FRAME_NONE unless the state has two levels */
};

struct kernel {
	struct proton_context where;
	uint64_t start_ns;
	struct trace_event event;
};

struct cache_entry {
	uint32_t parent;
	uint32_t frame; /* 0: free */
	uint32_t context;
	uint32_t config; /* in which the context has been noted; 0: in none */
};

struct thread {
	uint32_t ordinal;
	uint32_t generation; /* of the scopes below */
	struct scope *scopes;
	size_t depth;
	size_t capacity;
	uint32_t entered; /* scopes ever; wraps */
	struct state states[STATE_MAX];
	uint32_t state_depth;  /* may exceed STATE_MAX: those beyond are only counted */
	uint32_t kernel_depth; /* likewise */
	bool in_op;
	bool has_events; /* some scope has, or had */
	struct proton_context op;
	struct trace_event op_event;
	struct trace_event launch_event;
	struct trace_event last_launch; /* of a kernel; record_take_launch() */
	struct trace_thread trace;
	struct kernel kernels[KERNEL_MAX];
	struct cache_entry cache[CACHE_ENTRIES];
};

/* NULL until the thread has recorded something. */
extern _Thread_local struct thread *thread_self;

/* NULL when memory is out. */
__attribute__((cold)) struct thread *thread_new(void);
/* Drops the scopes of past sessions. */
__attribute__((cold)) void thread_renew(struct thread *thread, uint32_t generation);

/* The calling thread with the scopes of past sessions dropped; NULL when memory is out. */
static inline struct thread *thread_get(void)
{
	struct thread *thread = thread_self ? thread_self : thread_new();
	uint32_t generation = atomic_load_explicit(&session_generation, memory_order_relaxed);

	if (thread && thread->generation != generation)
		thread_renew(thread, generation);
	return thread;
}

/* In the sessions that are traces, for a thread that is at `where`. */
void thread_begin_event(struct thread *thread, enum event_kind kind, struct proton_context where,
			struct trace_event *event);

#endif
