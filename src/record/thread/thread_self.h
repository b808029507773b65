/*
 * State of the calling thread, for the files of this room, and what is inline for the scope path.
 * Other threads read the section, and with the thread's lock the contexts of its scopes.
 */
#pragma once

#include <libproton/proton.h>

#include "record/sets/session.h"
#include "record/thread/thread_trace.h"

/*
 * Scope stacks of tasks: coroutines that take turns on a thread (asyncio). Each task has its own
 * stack of scopes, which is the thread's while the task runs. A runtime names the running task
 * (proton_tasks_provider_set()); it is asked only on threads where a task has entered a scope.
 */

struct stack;
struct thread;

/* Installs the stack of the running task, or the thread's own. */
__attribute__((cold)) void task_follow(struct thread *thread);
/* Installs the stack with this number in its tokens. False: there is none. */
__attribute__((cold)) bool task_switch_to(struct thread *thread, uint32_t ordinal);
/* The stack of a task that does not run, or the thread's own (0) while a task runs; else NULL. */
__attribute__((cold)) struct stack *task_find(const struct thread *thread, uint64_t task);
/* The innermost scope around a task that has no scopes. */
__attribute__((cold)) uint32_t task_origin_context(const struct thread *thread);
/* Ends the trace events of open scopes. */
void task_end_events(struct thread *thread, struct stack *stack);
/* Removes all tasks; the thread's own stack is installed again. */
__attribute__((cold)) void task_drop_all(struct thread *thread);

/* A token: generation (16 bits) | thread (24) | depth (24); depth counts from 1, so never 0. */
#define TOKEN_DEPTH_BITS 24u
#define TOKEN_THREAD_BITS 24u
#define TASK_ORDINAL (1u << (TOKEN_THREAD_BITS - 1)) /* bit of the ordinals of tasks */
#define CACHE_ENTRIES 256u
#define STATE_MAX 16u
#define KERNEL_MAX 16u

struct scope {
	uint32_t context;  /* context of the scope */
	uint32_t own;      /* the same below the current state: context of its metrics */
	uint64_t start_ns; /* 0: not timed */
	uint32_t serial;   /* number of this entry into a scope on this thread; not 0 */
	uint32_t config;   /* for which the names on the path are noted, see frames.h */
	struct trace_event event;
	uint64_t work;  /* in which it was entered, see proton_scope_provider_set(); 0: none */
	uint64_t place; /* in the call stack, see proton_scope_place_set() */
	bool is_left;   /* exited by another task than entered it, see task.h */
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
	uint32_t config; /* config in which the context has been noted; 0: none */
};

#define TASK_ORIGIN_OWN UINT32_MAX

/* Open scopes and states of a thread, or of a task on it (task.h). */
struct stack {
	struct scope *scopes;
	size_t depth;
	size_t capacity;
	uint64_t task;        /* 0: the thread's own */
	uint32_t ordinal;     /* number in tokens */
	uint32_t origin;      /* context of a task without scopes; TASK_ORIGIN_OWN: the thread's */
	uint32_t state_depth; /* may exceed STATE_MAX: further ones are only counted */
	struct state states[STATE_MAX];
};

struct thread {
	uint32_t ordinal;
	uint32_t generation;      /* generation of the scopes below */
	_Atomic uint32_t section; /* odd: inside one; see section_begin() */
	bool has_tasks;           /* the stack may have to be replaced */
	bool is_following;
	bool in_op;
	bool has_events;       /* some scope has, or had, an event */
	uint32_t entered;      /* number of scopes ever entered; wraps */
	uint32_t kernel_depth; /* may exceed KERNEL_MAX */
	struct stack stack;
	struct stack *others; /* of tasks that do not run; the thread's own while one does */
	size_t other_count;
	size_t other_capacity;
	struct proton_context op;
	struct trace_event op_event;
	struct trace_event launch_event;
	struct trace_event last_launch; /* event of a kernel; record_take_launch() */
	struct trace_thread trace;
	struct kernel kernels[KERNEL_MAX];
	struct cache_entry cache[CACHE_ENTRIES];
	/* The latest scope of the main thread that this thread inherited, and its noted config. */
	uint32_t inherited;
	uint32_t inherited_config;
};

/* NULL until the thread has recorded something. */
extern _Thread_local struct thread *thread_self SESSION_DIRECT;

/* NULL if out of memory. */
__attribute__((cold)) struct thread *thread_new(void);
/* Drops the scopes of past sessions. */
__attribute__((cold)) void thread_renew(struct thread *thread, uint32_t generation);

/* A unique stack number for tokens. */
uint32_t thread_new_ordinal(bool is_task);
/* The main thread, and its innermost scope, for other threads. */
extern _Atomic uint32_t thread_main_ordinal SESSION_DIRECT;
/* On its own cache line: the main thread writes it at each of its scopes. */
struct main_scope {
	_Alignas(CACHE_LINE_BYTES) _Atomic uint32_t context;
};
extern struct main_scope thread_main_scope SESSION_DIRECT;

static inline bool thread_is_main(const struct thread *thread)
{
	return atomic_load_explicit(&thread_main_ordinal, memory_order_relaxed) == thread->ordinal;
}

/* The innermost scope of the main thread, for other threads. */
static inline uint32_t thread_outer_context(const struct thread *thread)
{
	if (thread_is_main(thread))
		return PROTON_CONTEXT_ROOT;
	/* acquire: pairs with thread_publish_main(), which finds the context's frame filled */
	return atomic_load_explicit(&thread_main_scope.context, memory_order_acquire);
}

/* Innermost scope of the thread, else the current one of the main thread. */
static inline uint32_t thread_scope_context(const struct thread *thread)
{
	if (thread->stack.depth)
		return thread->stack.scopes[thread->stack.depth - 1].context;
	if (thread->stack.task)
		return task_origin_context(thread);
	return thread_outer_context(thread);
}

extern _Atomic(proton_scope_provider_fn) thread_scope_provider SESSION_DIRECT;

/* thread_scope_context() in the work that the thread runs. `work_out` NULL: a launch. */
__attribute__((cold)) uint32_t thread_context_of_work(const struct thread *thread,
						      uint64_t *work_out);

static inline bool thread_has_work(void)
{
	return atomic_load_explicit(&thread_scope_provider, memory_order_relaxed);
}

/* Publishes the main thread's context to other threads, if this is it. */
static inline void thread_publish_main(const struct thread *thread)
{
	/* release: pairs with thread_outer_context() */
	if (thread_is_main(thread))
		atomic_store_explicit(&thread_main_scope.context, thread_scope_context(thread),
				      memory_order_release);
}

static inline void thread_set_depth(struct thread *thread, size_t depth)
{
	/* release: pairs with note_stack(), which finds the scopes below it filled */
	__atomic_store_n(&thread->stack.depth, depth, __ATOMIC_RELEASE);
}

static inline uint32_t thread_current_config(void)
{
	/* acquire: pairs with session_publish(), which makes the config's content visible */
	return atomic_load_explicit(&session_config, memory_order_acquire);
}

/* Where the call stack is, for a scope that is entered; 0: unknown. */
uint64_t thread_context_place(void);

uint32_t thread_context_below_state(const struct thread *thread, uint32_t context);

/* `context` below the innermost state. */
static inline uint32_t thread_below_state(const struct thread *thread, uint32_t context)
{
	return thread->stack.state_depth ? thread_context_below_state(thread, context) : context;
}

/* The location at `shadow`, which has been noted for `config`, see frames.h. */
struct proton_context thread_context_locate(const struct thread *thread, uint32_t shadow,
					    uint32_t config);
void thread_context_note_again(struct scope *scope, uint32_t config);

/* The location at one of the thread's own scopes. */
static inline struct proton_context thread_locate_scope(struct thread *thread, struct scope *scope,
							uint32_t shadow)
{
	uint32_t config = thread_current_config();

	if (__builtin_expect(scope->config != config, 0))
		thread_context_note_again(scope, config);
	return thread_context_locate(thread, shadow, config);
}

/* The calling thread, without scopes of past sessions; NULL if out of memory. */
static inline struct thread *thread_get(void)
{
	struct thread *thread = thread_self ? thread_self : thread_new();
	uint32_t generation = atomic_load_explicit(&session_generation, memory_order_relaxed);

	if (thread && thread->generation != generation)
		thread_renew(thread, generation);
	if (thread && __builtin_expect(thread->has_tasks, 0))
		task_follow(thread);
	return thread;
}

/*
 * A section: from finding a name, or the main thread's scope, until it has been noted or is among
 * the thread's open scopes. A name that was found in a section is not replaced during it. A section
 * may take the locks of names, of a session and of frames, no other. True if it is the outermost.
 */
static inline bool section_begin(struct thread *thread)
{
	uint32_t section = atomic_load_explicit(&thread->section, memory_order_relaxed);

	if (section & 1)
		return false; /* in a signal handler */
	atomic_store_explicit(&thread->section, section + 1, memory_order_relaxed);
	/* The memory barrier for this is in reclaim_names.c; this is the compiler's. */
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static inline void section_end(struct thread *thread, bool is_outermost)
{
	uint32_t section = atomic_load_explicit(&thread->section, memory_order_relaxed);

	/* release: a thread that sees the section ended also sees everything noted in it */
	if (is_outermost)
		atomic_store_explicit(&thread->section, section + 1, memory_order_release);
}

/* Begins an event of a thread at `where` in the sessions that are traces. */
void thread_begin_event(struct thread *thread, enum event_kind kind, struct proton_context where,
			struct trace_event *event);
