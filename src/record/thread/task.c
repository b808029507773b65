/* Scope stacks of tasks (coroutines). */

#include <libproton/proton.h>

#include "base/array.h"
#include "base/clock.h"
#include "record/names/frames.h"
#include "record/thread/thread_self.h"

static _Atomic(proton_tasks_provider_fn) provider;

void proton_tasks_provider_set(proton_tasks_provider_fn running)
{
	atomic_store_explicit(&provider, running, memory_order_release);
}

void proton_tasks_follow(void)
{
	struct thread *thread = session_any_live() ? thread_get() : NULL;

	if (!thread || thread->has_tasks)
		return;
	thread->has_tasks = true;
	task_follow(thread);
}

uint64_t proton_task_origin(void)
{
	struct thread *thread = session_any_live() ? thread_get() : NULL;

	if (!thread)
		return 0;
	bool is_outermost = section_begin(thread);
	uint32_t context = thread_scope_context(thread);
	/* The task may begin long after the scope was exited and cleared. */
	context_tree_fix_path(context);
	section_end(thread, is_outermost);
	return (uint64_t)thread->generation << 32 | context;
}

void task_end_events(struct thread *thread, struct stack *stack)
{
	for (size_t i = stack->depth; i-- > 0;)
		if (stack->scopes[i].event.count)
			thread_trace_end(&thread->trace, &stack->scopes[i].event,
					 clock_monotonic_ns());
}

/* Puts the thread's stack aside and installs `next`. The thread's lock is held. */
static void replace(struct thread *thread, const struct stack *next)
{
	const struct stack *old = &thread->stack;

	if (old->task && old->depth == 0 && old->state_depth == 0) /* not needed again */
		free(thread->stack.scopes);
	else
		thread->others[thread->other_count++] = thread->stack; /* has space: reserved */
	thread->stack = *next;
}

static bool reserve(struct thread *thread)
{
	thread_trace_lock(&thread->trace); /* readers of the stacks hold it, see thread.c */
	bool has_space = array_reserve(&thread->others, &thread->other_capacity,
				       thread->other_count + 1, sizeof(*thread->others));
	thread_trace_unlock(&thread->trace);
	if (!has_space)
		name_limits_lose();
	return has_space;
}

struct stack *task_find(const struct thread *thread, uint64_t task)
{
	for (size_t i = 0; i < thread->other_count; i++)
		if (thread->others[i].task == task)
			return &thread->others[i];
	return NULL;
}

static void switch_to(struct thread *thread, struct stack *other)
{
	struct stack next = *other;

	thread_trace_lock(&thread->trace);
	*other = thread->others[--thread->other_count];
	replace(thread, &next);
	thread_trace_unlock(&thread->trace);
}

static void begin_task(struct thread *thread, const struct proton_task *task)
{
	struct stack next = {
		.task = task->id,
		.ordinal = thread_new_ordinal(true),
		.origin = TASK_ORIGIN_OWN,
	};

	/* The context where the task was made, unless the sessions of that time have ended. */
	if (task->origin && task->origin >> 32 == thread->generation)
		next.origin = (uint32_t)task->origin;
	thread_trace_lock(&thread->trace);
	replace(thread, &next);
	thread_trace_unlock(&thread->trace);
}

void task_follow(struct thread *thread)
{
	proton_tasks_provider_fn running = atomic_load_explicit(&provider, memory_order_acquire);
	struct proton_task task = {0};

	/* The runtime's callback may call into this function. A launch stays where it began. */
	if (thread->is_following || thread->in_op)
		return;
	thread->is_following = true;
	bool has_tasks = running && running(&task);
	thread->is_following = false;
	if (!has_tasks)
		task.id = 0;
	if (task.id != thread->stack.task) {
		struct stack *other = task_find(thread, task.id);

		if (other)
			switch_to(thread, other);
		else if (reserve(thread))
			begin_task(thread, &task);
		thread_publish_main(thread);
	}
	thread->has_tasks = has_tasks || thread->other_count || thread->stack.task;
}

bool task_switch_to(struct thread *thread, uint32_t ordinal)
{
	for (size_t i = 0; i < thread->other_count; i++) {
		if (thread->others[i].ordinal != ordinal)
			continue;
		switch_to(thread, &thread->others[i]);
		return true;
	}
	return false;
}

uint32_t task_origin_context(const struct thread *thread)
{
	const struct stack *own = task_find(thread, 0);

	if (thread->stack.origin != TASK_ORIGIN_OWN)
		return thread->stack.origin;
	return own && own->depth ? own->scopes[own->depth - 1].context
				 : thread_outer_context(thread);
}

void task_drop_all(struct thread *thread)
{
	struct stack *own = task_find(thread, 0);

	if (own)
		switch_to(thread, own);
	for (size_t i = 0; i < thread->other_count; i++)
		task_end_events(thread, &thread->others[i]);
	thread_trace_lock(&thread->trace);
	for (size_t i = 0; i < thread->other_count; i++)
		free(thread->others[i].scopes);
	thread->other_count = 0;
	thread_trace_unlock(&thread->trace);
	thread->has_tasks = false;
}
