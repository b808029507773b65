/* Per-thread state: making and freeing it, sections, notes of open scopes, the main thread. */
#include "record/thread/thread.h"

#include <libproton/proton.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "record/names/frames.h"
#include "record/thread/thread_self.h"

_Thread_local struct thread *thread_self;
_Atomic uint32_t thread_main_ordinal = UINT32_MAX;
struct main_scope thread_main_scope;
static pthread_key_t exit_key;
static pthread_once_t exit_key_once = PTHREAD_ONCE_INIT;
static _Atomic uint32_t thread_count;

static void thread_free(void *data)
{
	struct thread *thread = data;

	task_drop_all(thread);
	task_end_events(thread, &thread->stack);
	thread_trace_give_back(&thread->trace);
	thread_trace_remove(&thread->trace);
	thread_self = NULL;
	FREE_ALL(thread->stack.scopes, thread->others, thread);
}

static void make_exit_key(void)
{
	pthread_key_create(&exit_key, thread_free);
}

uint32_t thread_new_ordinal(bool is_task)
{
	uint32_t number = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed);

	return (number & (TASK_ORDINAL - 1)) | (is_task ? TASK_ORDINAL : 0);
}

struct thread *thread_new(void)
{
	struct thread *thread = calloc(1, sizeof(*thread));

	if (!thread) {
		name_limits_lose();
		return NULL;
	}
	pthread_once(&exit_key_once, make_exit_key);
	pthread_setspecific(exit_key, thread);
	thread->ordinal = thread_new_ordinal(false);
	thread->stack.ordinal = thread->ordinal;
	thread_trace_add(&thread->trace);
	thread_self = thread;
	return thread;
}

void thread_renew(struct thread *thread, uint32_t generation)
{
	task_drop_all(thread);
	thread->generation = generation;
	thread_set_depth(thread, 0);
	thread->kernel_depth = 0;
	thread->in_op = false;
	thread->has_events = false;
	thread->op_event.count = 0;
	thread->launch_event.count = 0;
}

/* ------------------------------------------------------------------ holding threads */

static pthread_mutex_t holder_lock = PTHREAD_MUTEX_INITIALIZER; /* held while threads are */
static const struct proton_holder *_Atomic holder;

void proton_holder_set(const struct proton_holder *new_holder)
{
	MUTEX_HOLD(&holder_lock);
	atomic_store(&holder, new_holder);
}

bool thread_has_holder(void)
{
	return atomic_load_explicit(&holder, memory_order_relaxed);
}

bool thread_hold(void)
{
	pthread_mutex_lock(&holder_lock);
	const struct proton_holder *used = atomic_load(&holder);
	if (used && used->begin())
		return true;
	pthread_mutex_unlock(&holder_lock);
	return false;
}

void thread_release(void)
{
	atomic_load(&holder)->end();
	pthread_mutex_unlock(&holder_lock);
}

void thread_wait_for_release(void)
{
	const struct proton_holder *used = atomic_load(&holder);

	if (used && used->begin())
		used->end();
}

bool thread_is_holdable(void)
{
	const struct proton_holder *used = atomic_load_explicit(&holder, memory_order_relaxed);

	return used && used->covers();
}

/* ------------------------------------------------------------------ the main thread, sections */

static _Thread_local uint32_t starts_for = UINT32_MAX;

uint32_t thread_read_ordinal(void)
{
	struct thread *thread = thread_get();

	return thread ? thread->ordinal : UINT32_MAX;
}

void thread_start_for(uint32_t ordinal)
{
	starts_for = ordinal;
}

void thread_set_main(void)
{
	uint32_t ordinal = starts_for != UINT32_MAX ? starts_for : thread_read_ordinal();

	atomic_store_explicit(&thread_main_scope.context, PROTON_CONTEXT_ROOT,
			      memory_order_relaxed);
	atomic_store_explicit(&thread_main_ordinal, ordinal, memory_order_relaxed);
}

void thread_fork_child(void)
{
	/* The child has only the forking thread; the generation drops its scopes. */
	if (thread_self) {
		task_drop_all(thread_self);
		thread_self->stack.state_depth = 0;
	}
	thread_trace_fork_child(thread_self ? &thread_self->trace : NULL);
	pthread_mutex_init(&holder_lock, NULL);
}

static struct thread *thread_of(struct trace_thread *trace)
{
	return (struct thread *)((char *)trace - offsetof(struct thread, trace));
}

static uint64_t wait_until_ns; /* guarded by the registry, as is the next */
static bool has_waited_in_vain;

static void wait_section(struct trace_thread *trace)
{
	struct thread *thread = thread_of(trace);
	/* acquire: pairs with section_end() */
	uint32_t section = atomic_load_explicit(&thread->section, memory_order_acquire);

	while (section & 1 &&
	       atomic_load_explicit(&thread->section, memory_order_acquire) == section) {
		if (clock_monotonic_ns() > wait_until_ns) {
			has_waited_in_vain = true;
			return;
		}
		sched_yield();
	}
}

bool thread_wait_sections(uint64_t timeout_ns)
{
	wait_until_ns = clock_monotonic_ns() + timeout_ns;
	has_waited_in_vain = false;
	thread_trace_each(wait_section);
	return !has_waited_in_vain;
}

static void note_stack(const struct stack *stack)
{
	size_t depth = __atomic_load_n(&stack->depth, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < depth; i++)
		reused_names_note(__atomic_load_n(&stack->scopes[i].context, __ATOMIC_RELAXED));
}

static void note_open(struct trace_thread *trace)
{
	const struct thread *thread = thread_of(trace);

	thread_trace_lock(trace); /* while it is held, no stack moves or is replaced */
	note_stack(&thread->stack);
	for (size_t i = 0; i < thread->other_count; i++)
		note_stack(&thread->others[i]);
	thread_trace_unlock(trace);
}

void thread_note_open(void)
{
	thread_trace_each(note_open);
}

bool thread_is_in_section(void)
{
	return thread_self && atomic_load_explicit(&thread_self->section, memory_order_relaxed) & 1;
}

void thread_begin_event(struct thread *thread, enum event_kind kind, struct proton_context where,
			struct trace_event *event)
{
	thread_trace_begin(&thread->trace, session_config_get(where.sessions),
			   &(struct trace_begin){.kind = (uint16_t)kind,
						 .shadow = where.shadow,
						 .source = where.source,
						 .flags = kind == EVENT_LAUNCH ? EVENT_NAMED : 0,
						 .launch = thread->in_op ? &thread->op_event : NULL,
						 .start_ns = clock_monotonic_ns()},
			   event);
}
