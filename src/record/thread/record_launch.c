/* Launches of a thread: ops (named by a hook), seen by a backend, CPU kernels; and their ends. */
#include "record/thread/record_launch.h"

#include "base/array.h"
#include "base/clock.h"
#include "record/names/frames.h"
#include "record/store/devices.h"
#include "record/thread/adding.h"
#include "record/thread/thread_self.h"

static _Atomic uint32_t host_device = DEVICE_NONE;
static _Thread_local uint32_t own_work;

void proton_op_enter(uint32_t frame, struct proton_context *where_out)
{
	struct thread *thread = session_any_live() ? thread_get() : NULL;

	*where_out = (struct proton_context){0};
	if (!thread)
		return;
	if (!thread->in_op) {
		thread->op = proton_context_enter(proton_context_here(), frames_as_kernel(frame));
		if (thread->op.sessions & CONFIG_TRACED)
			thread_begin_event(thread, EVENT_LAUNCH, thread->op, &thread->op_event);
		thread->in_op = true;
	}
	*where_out = thread->op;
}

void proton_op_exit(void)
{
	struct thread *thread = thread_self;

	if (!thread)
		return;
	thread->in_op = false;
	if (thread->op_event.count)
		thread_trace_end(&thread->trace, &thread->op_event, clock_monotonic_ns());
}

const struct trace_event *record_launch_begin(struct proton_context where, uint32_t correlation,
					      enum launch_kind kind)
{
	static const uint16_t flags[] = {
		[LAUNCH_KERNEL] = 0,
		[LAUNCH_GRAPH] = EVENT_OF_GRAPH,
		[LAUNCH_MEMORY] = EVENT_OF_MEMORY,
	};
	struct thread *thread = where.sessions & CONFIG_TRACED ? thread_get() : NULL;

	if (!thread)
		return NULL;
	if (thread->in_op && kind == LAUNCH_KERNEL) { /* the op stands for the launch */
		thread_trace_set_detail(&thread->trace, &thread->op_event, correlation);
		thread->last_launch = thread->op_event;
		return &thread->op_event;
	}
	thread_trace_begin(&thread->trace, session_config_get(where.sessions),
			   &(struct trace_begin){.kind = EVENT_LAUNCH,
						 .flags = flags[kind],
						 .shadow = where.shadow,
						 .source = where.source,
						 .detail = correlation,
						 .start_ns = clock_monotonic_ns()},
			   &thread->launch_event);
	if (kind == LAUNCH_KERNEL)
		thread->last_launch = thread->launch_event;
	return &thread->launch_event;
}

void record_launch_end(void)
{
	struct thread *thread = thread_self;

	if (thread && thread->launch_event.count)
		thread_trace_end(&thread->trace, &thread->launch_event, clock_monotonic_ns());
}

void record_take_launch(struct trace_event *out)
{
	struct thread *thread = thread_self;

	if (!thread) {
		out->count = 0;
		return;
	}
	*out = thread->last_launch;
	thread->last_launch.count = 0;
}

bool record_is_in_op(void)
{
	return thread_self && thread_self->in_op;
}

_Atomic(proton_launch_observer_fn) record_launch_observer;

void proton_launch_observer_set(proton_launch_observer_fn launched)
{
	atomic_store_explicit(&record_launch_observer, launched, memory_order_release);
}

/* The observer, if it wants the launch. */
static proton_launch_observer_fn observer_of(struct proton_context where)
{
	/* acquire: pairs with proton_launch_observer_set() */
	proton_launch_observer_fn launched =
		atomic_load_explicit(&record_launch_observer, memory_order_acquire);

	return launched && where.sessions && !record_is_in_op() ? launched : NULL;
}

void record_observe_launch(struct proton_context where, const char *name)
{
	proton_launch_observer_fn launched = observer_of(where);

	if (launched)
		launched(where, frames_add(FRAME_KERNEL, name, strlen(name)));
}

void record_own_work_begin(void)
{
	own_work++;
}

void record_own_work_end(void)
{
	own_work--;
}

bool record_is_own_work(void)
{
	return own_work;
}

static _Atomic uint64_t steps;

void proton_note_step(void)
{
	atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
}

uint64_t record_steps(void)
{
	return atomic_load_explicit(&steps, memory_order_relaxed);
}

void record_set_host_device(uint32_t device)
{
	atomic_store_explicit(&host_device, device, memory_order_relaxed);
}

/* The CPU as described by the host backend; under another backend, only its name. */
static uint32_t host_device_id(void)
{
	static const struct device cpu = {.type = "CPU"};
	uint32_t device = atomic_load_explicit(&host_device, memory_order_relaxed);

	return device == DEVICE_NONE ? devices_add(&cpu) : device;
}

void proton_kernel_begin(uint32_t frame)
{
	struct thread *thread = session_any_live() ? thread_get() : NULL;

	if (!thread)
		return;
	if (thread->kernel_depth < KERNEL_MAX) {
		struct kernel *kernel = &thread->kernels[thread->kernel_depth];
		struct proton_context here = proton_context_here();

		proton_launch_observer_fn launched = observer_of(here);

		if (launched)
			launched(here, frames_as_kernel(frame));
		kernel->where = thread->in_op ? here
					      : proton_context_enter(here, frames_as_kernel(frame));
		kernel->event.count = 0;
		if (kernel->where.sessions & CONFIG_TRACED)
			thread_begin_event(thread, EVENT_KERNEL, kernel->where, &kernel->event);
		kernel->start_ns = clock_monotonic_ns();
	}
	thread->kernel_depth++;
}

void proton_kernel_end(void)
{
	uint64_t end_ns = clock_monotonic_ns();
	struct thread *thread = session_any_live() ? thread_get() : NULL;

	if (!thread || !thread->kernel_depth)
		return;
	if (--thread->kernel_depth >= KERNEL_MAX)
		return;
	struct kernel *kernel = &thread->kernels[thread->kernel_depth];
	if (kernel->event.count)
		thread_trace_end(&thread->trace, &kernel->event, end_ns);
	record_kernel(kernel->where, &(struct execution){
					     .device = host_device_id(),
					     .is_of_host = true,
					     .start_ns = kernel->start_ns,
					     .end_ns = end_ns,
				     });
}

static _Atomic(void (*)(uint64_t dispatch, struct proton_context where)) observer;

void record_observe_dispatches(void (*observe)(uint64_t dispatch, struct proton_context where))
{
	atomic_store_explicit(&observer, observe, memory_order_relaxed);
}

bool record_dispatches_are_observed(void)
{
	return atomic_load_explicit(&observer, memory_order_relaxed);
}

void record_dispatch(uint64_t dispatch, struct proton_context where)
{
	void (*observe)(uint64_t number, struct proton_context of) =
		atomic_load_explicit(&observer, memory_order_relaxed);

	if (observe)
		observe(dispatch, where);
}

void record_kernel(struct proton_context where, const struct execution *execution)
{
	const struct config *config = session_config_get(where.sessions);

	if (!thread_self)
		thread_get(); /* a vendor's thread: it adds without the session's lock too */
	where = proton_context_enter(where, execution->frame);
	if (execution->dispatch)
		record_dispatch(execution->dispatch, where);
	ARRAY_EACH(entry, config->entries, config->count) {
		struct adding adding;

		if (execution->is_memory && !entry->wants_memory)
			continue;
		uint32_t context = session_context(entry, where);
		if (adding_begin(entry, &adding)) {
			bool is_added = store_add_kernel(adding.store, context, entry->epoch,
							 execution, adding.is_shared,
							 adding.stripe);
			adding_end(&adding);
			if (is_added)
				continue;
		}
		struct session *session = adding_lock(entry);
		if (!session)
			continue;
		store_kernel(&session->store, context, where.shadow, entry->epoch, execution);
		pthread_mutex_unlock(&session->lock);
	}
}
