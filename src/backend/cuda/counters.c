/*
 * Counters: which launches are measured, from the start of a session to its end.
 *
 * A range synchronizes the context when it begins and ends, which takes 1 ms. So ranges are few,
 * and never while a stream is captured: a wait ends captures. While a range is open, the gate keeps
 * launches of other threads outside (call_gate.h), and new captures.
 */
#include "backend/cuda/counters.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/counter_kernels.h"
#include "backend/cuda/range_session.h"
#include "backend/cuda/sampling_hooks.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "driver/driver.h"
#include "record/names/frames.h"
#include "record/record.h"
#include "record/thread/captured.h"

#define SESSIONS_MAX 16u
/* The first ranges of a program may cost so much, whatever the share. */
#define ALLOWANCE_NS 1000000000ull
#define RANGE_NS 1000000ull   /* about what a range costs */
#define START_NS 150000000ull /* and a start with another set */
#define GATE_NS 1000000ull    /* a launch waits for other threads */
#define LONG_GATE_NS 200000000ull
#define IDLE_NS 300000000ull /* an image is read if no range was added for so long */
#define LAUNCHES 65536u      /* with records that may not have arrived */
#define IS_MEASURED (1u << 31)

/* A range in an image. */
struct range {
	uint32_t kernel; /* 0: given up */
	struct proton_context where;
};

/* A context, of which kernels are measured. */
struct measuring {
	struct range_session cupti;
	uint32_t device;
	bool is_refused; /* CUPTI does not measure this context */
	uint64_t pushed_ns;
	struct range ranges[RANGES_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held from push to pop */
static struct measuring sessions[SESSIONS_MAX];          /* guarded by it, as the following */
static size_t session_count;
static bool second_was_noted;
static uint64_t range_count;
static uint64_t open_ns; /* the cost of opening sessions */
static double l2_bytes_per_clock;
static size_t set_count;

static double share;
static uint64_t start_ns;
static _Atomic uint64_t spent_ns;
static _Atomic bool has_run;
/* By correlation ID: that, the kernel, and IS_MEASURED. One word: it is read without a lock. */
static _Atomic uint64_t launches[LAUNCHES];

/* The thread's current launch. */
static _Thread_local struct {
	uint32_t kernel;
	struct measuring *session; /* NULL: it is not measured */
	uint32_t depth;            /* of calls inside of it */
	bool is_spoiled;           /* another launch began in its range */
} here;

static const struct sampling_hooks on, closing;

static bool is_on(void)
{
	return sampling_hooks_get() == &on;
}

/* ------------------------------------------------------------------ the budget */

static bool may_spend(uint64_t price_ns)
{
	double elapsed_ns = (double)(clock_monotonic_ns() - start_ns);

	return (double)(atomic_load_explicit(&spent_ns, memory_order_relaxed) + price_ns) <=
	       (double)ALLOWANCE_NS + share * elapsed_ns;
}

static void spend_since(uint64_t begin_ns)
{
	atomic_fetch_add_explicit(&spent_ns, clock_monotonic_ns() - begin_ns, memory_order_relaxed);
}

/* ------------------------------------------------------------------ launches and records */

static void note_launch(uint32_t correlation, uint32_t kernel)
{
	/* relaxed: the record of the launch arrives after CUPTI's own synchronization */
	atomic_store_explicit(&launches[correlation % LAUNCHES],
			      (uint64_t)correlation << 32 | kernel, memory_order_relaxed);
}

/* The kernel, with IS_MEASURED; 0: not known. */
static uint32_t find_launch(uint32_t correlation)
{
	uint64_t word =
		atomic_load_explicit(&launches[correlation % LAUNCHES], memory_order_relaxed);

	return (uint32_t)(word >> 32) == correlation ? (uint32_t)word : 0;
}

static bool drops_record(const struct cupti_kernel *kernel)
{
	if (!(find_launch(kernel->correlation_id) & IS_MEASURED))
		return false;
	record_count(COUNTER_MEASURED, 1);
	return true;
}

/* `captured`: from captured_kernel(), or 0. */
static void attribute(const struct cupti_kernel *kernel, uint64_t captured,
		      struct execution *execution)
{
	execution->dispatch = captured ? captured : find_launch(kernel->correlation_id);
}

/* A recorded kernel. */
static void note_execution(uint64_t kernel, struct proton_context where)
{
	counter_kernels_note_launch((uint32_t)kernel, where);
}

static uint64_t captured_kernel(void)
{
	return here.kernel;
}

/* ------------------------------------------------------------------ sessions of contexts */

static struct measuring *find_session(const void *context)
{
	for (size_t i = 0; i < session_count; i++)
		if (sessions[i].cupti.context == context)
			return &sessions[i];
	return NULL;
}

/* Recording continues without counters. */
static void refuse_context(struct measuring *session, const struct proton_error *why)
{
	void *context = session->cupti.context;

	message_once("counters of kernels are not read: %s; kernels are recorded without them",
		     why->text);
	range_session_close(&session->cupti, true);
	session->cupti.context = context;
	session->is_refused = true;
}

static bool has_other_session(uint32_t device)
{
	for (size_t i = 0; i < session_count; i++)
		if (sessions[i].device == device)
			return true;
	return false;
}

/* Opens a session for a context, or notes why there is none. The gate is closed. */
static struct measuring *add_session(void *context)
{
	struct measuring *session = &sessions[session_count];
	uint32_t device = 0;
	struct proton_error err;

	if (session_count == SESSIONS_MAX ||
	    libcupti.cuptiGetDeviceId(context, &device) != CUPTI_OK)
		return NULL;
	*session = (struct measuring){.device = device, .cupti = {.context = context}};
	if (has_other_session(device)) {
		if (!second_was_noted)
			message("counters of a second CUDA context on GPU %u are not read", device);
		second_was_noted = true;
		session->is_refused = true;
	} else if (range_session_open(&session->cupti, context, device, &err) != PROTON_OK) {
		session->cupti.context = context;
		refuse_context(session, &err);
	}
	session_count++;
	set_count = session->cupti.sets.count ? session->cupti.sets.count : set_count;
	return session;
}

/* ------------------------------------------------------------------ reading */

static void take_range(uint32_t number, const double values[COUNTER_VALUES], void *user)
{
	struct measuring *session = user;
	struct range *range = &session->ranges[number];

	if (!range->kernel)
		return;
	counter_kernels_add(range->kernel, &session->cupti.sets, (uint32_t)session->cupti.set,
			    values, range->where);
	range->kernel = 0;
}

/* The lock is held, and the gate is closed. */
static void read_session(struct measuring *session)
{
	uint32_t count = session->cupti.count;
	uint32_t set = (uint32_t)session->cupti.set;
	uint64_t begin_ns = clock_monotonic_ns();
	struct proton_error err;
	uint64_t lost = 0;

	if (!session->cupti.is_started)
		return;
	if (range_session_stop(&session->cupti, take_range, session, &err) != PROTON_OK)
		refuse_context(session, &err);
	l2_bytes_per_clock = session->cupti.sets.l2_bytes_per_clock;
	for (uint32_t i = 0; i < count; i++)
		if (session->ranges[i].kernel) {
			counter_kernels_lose(session->ranges[i].kernel, set);
			lost++;
		}
	if (lost)
		record_count(COUNTER_RANGES, lost);
	spend_since(begin_ns);
}

static bool take_lock(uint64_t limit_ns)
{
	uint64_t begin_ns = clock_monotonic_ns();

	while (pthread_mutex_trylock(&lock) != 0) {
		if (clock_monotonic_ns() - begin_ns >= limit_ns)
			return false;
		usleep(200);
	}
	return true;
}

/* Reads all images, or only full and old ones. False: other threads are launching. */
static bool read_sessions(bool is_all, uint64_t limit_ns)
{
	uint64_t now_ns = clock_monotonic_ns();
	bool is_wanted = false;

	for (size_t i = 0; i < session_count; i++) {
		const struct measuring *session = &sessions[i];

		is_wanted |= session->cupti.is_started && session->cupti.count &&
			     (is_all || session->cupti.count == RANGES_MAX ||
			      now_ns - session->pushed_ns >= IDLE_NS);
	}
	if (!is_wanted)
		return true;
	if (!call_gate_close_between_captures(CALL_GATE_SAMPLING, limit_ns))
		return false;
	for (size_t i = 0; i < session_count; i++)
		if (sessions[i].cupti.count)
			read_session(&sessions[i]);
	call_gate_open();
	return true;
}

void counters_on_round(void)
{
	if (!is_on() || !take_lock(0))
		return;
	read_sessions(false, LONG_GATE_NS);
	pthread_mutex_unlock(&lock);
}

void counters_flush(void)
{
	if (!atomic_load(&has_run))
		return;
	if (is_on() && take_lock(LONG_GATE_NS)) {
		read_sessions(true, LONG_GATE_NS);
		pthread_mutex_unlock(&lock);
	}
	counter_kernels_flush();
}

/* ------------------------------------------------------------------ measuring a launch */

/* Reads what a launch call starts, and its stream; false: it is none that can be measured. */
static bool read_launch(uint32_t call, const struct cupti_callback_data *data,
			struct counter_launch *launch, void **stream)
{
	const struct cuda_launch_params *params = data->function_params;
	const struct cuda_launch_ex_params *ex = data->function_params;

	if (!params)
		return false;
	switch (call) {
	case CUPTI_CALL_LAUNCH_KERNEL:
	case CUPTI_CALL_LAUNCH_KERNEL_PTSZ:
	case CUPTI_CALL_LAUNCH_COOPERATIVE:
	case CUPTI_CALL_LAUNCH_COOPERATIVE_PTSZ:
		launch->function = params->function;
		memcpy(launch->sizes, params->sizes, sizeof(launch->sizes));
		*stream = params->stream;
		break;
	case CUPTI_CALL_LAUNCH_KERNEL_EX:
	case CUPTI_CALL_LAUNCH_KERNEL_EX_PTSZ:
		if (!ex->config)
			return false;
		launch->function = ex->function;
		memcpy(launch->sizes, ex->config->sizes, sizeof(launch->sizes));
		*stream = ex->config->stream;
		break;
	default:
		return false;
	}
	launch->name = data->symbol_name;
	return true;
}

/* A kernel that waits for a later launch would never end in a range: one of several GPUs. */
static bool waits_for_others(const char *name)
{
	return !name || strstr(name, "nccl") || strstr(name, "nvshmem");
}

static bool is_captured(void *stream)
{
	int status = 0;

	return libcuda.cuStreamIsCapturing &&
	       (libcuda.cuStreamIsCapturing(stream, &status) != 0 || status != 0);
}

/* Begins to count the set, unless the session counts. The lock is held, and the gate is closed. */
static bool is_ready(struct measuring *session, uint32_t set)
{
	struct proton_error err;

	if (session->cupti.is_started)
		return true;
	if (!may_spend(START_NS))
		return false;
	if (range_session_start(&session->cupti, set, &err) == PROTON_OK)
		return true;
	refuse_context(session, &err);
	return false;
}

static void push_range(struct measuring *session, const struct cupti_callback_data *data,
		       struct proton_context where)
{
	struct range *range = &session->ranges[session->cupti.count % RANGES_MAX];
	const char *name = data->symbol_name;
	struct proton_error err;

	if (!record_is_in_op())
		where = proton_context_enter(where, frames_add(FRAME_KERNEL, name, strlen(name)));
	*range = (struct range){here.kernel, where};
	if (range_session_push(&session->cupti, &err) != PROTON_OK) {
		refuse_context(session, &err);
		return;
	}
	counter_kernels_note_range(here.kernel);
	here.session = session;
	here.depth = 0;
	here.is_spoiled = false;
}

/* Is the session unable to take a launch of this set? */
static bool is_waiting(const struct measuring *session, uint32_t set)
{
	return session->is_refused ||
	       (session->cupti.is_started &&
		(session->cupti.count == RANGES_MAX || session->cupti.set != set));
}

/* The session of a launch's context, or NULL. Opening is not in the budget. */
static struct measuring *session_for(void *context)
{
	struct measuring *session = find_session(context);
	uint64_t begin_ns = clock_monotonic_ns();

	if (!session && call_gate_close_between_captures(CALL_GATE_SAMPLING, LONG_GATE_NS)) {
		session = add_session(context);
		open_ns += clock_monotonic_ns() - begin_ns;
		call_gate_open();
	}
	return session;
}

/* Begins a range if that is possible at once. The lock and the gate are then held until the end. */
static void try_range(const struct cupti_callback_data *data, void *stream, uint32_t set,
		      struct proton_context where)
{
	struct measuring *session = NULL;
	uint64_t begin_ns;

	if (pthread_mutex_trylock(&lock) != 0)
		return;
	session = session_for(data->context);
	begin_ns = clock_monotonic_ns();
	if (session && !is_waiting(session, set) &&
	    call_gate_close_between_captures(CALL_GATE_SAMPLING, GATE_NS)) {
		if (!is_captured(stream) && is_ready(session, set))
			push_range(session, data, where);
		if (!here.session)
			call_gate_open();
	}
	if (!here.session)
		pthread_mutex_unlock(&lock);
	spend_since(begin_ns);
}

static void end_range(const struct cupti_callback_data *data)
{
	const int *result = data->function_return_value;
	struct measuring *session = here.session;
	struct range *range = &session->ranges[session->cupti.count - 1];
	uint64_t begin_ns = clock_monotonic_ns();
	struct proton_error err;

	here.session = NULL;
	session->pushed_ns = begin_ns;
	range_count++;
	if (launches_here.is_captured || (result && *result != 0)) {
		counter_kernels_lose(range->kernel, (uint32_t)session->cupti.set);
		range->kernel = 0; /* nothing ran in it */
	} else {
		note_launch(data->correlation_id, here.kernel | IS_MEASURED);
	}
	if (range_session_pop(&session->cupti, &err) != PROTON_OK)
		refuse_context(session, &err);
	if (here.is_spoiled && range->kernel) {
		counter_kernels_lose(range->kernel, (uint32_t)session->cupti.set);
		record_count(COUNTER_RANGES, 1);
		range->kernel = 0;
	}
	call_gate_open();
	pthread_mutex_unlock(&lock);
	spend_since(begin_ns);
}

/* ------------------------------------------------------------------ hooks */

static void begin_launch(uint32_t call, const struct cupti_callback_data *data,
			 struct proton_context where, bool is_kernel)
{
	struct counter_launch launch;
	void *stream;
	uint32_t set;

	call_gate_pass(CALL_GATE_LAUNCH);
	if (here.session) { /* a call inside of a call */
		here.depth++;
		here.is_spoiled = true;
		return;
	}
	here.kernel = 0;
	if (!is_kernel || proton_context_is_empty(where) ||
	    !read_launch(call, data, &launch, &stream))
		return;
	here.kernel = counter_kernels_find(&launch);
	note_launch(data->correlation_id, here.kernel);
	set = here.kernel ? counter_kernels_wanted(here.kernel) : COUNTER_NO_SET;
	if (set != COUNTER_NO_SET && data->context && !call_gate_counts_here() &&
	    !captured_any_open() && may_spend(RANGE_NS) && !waits_for_others(launch.name))
		try_range(data, stream, set, where);
}

static void end_launch(const struct cupti_callback_data *data)
{
	if (here.session && here.depth)
		here.depth--;
	else if (here.session)
		end_range(data);
	call_gate_leave(CALL_GATE_LAUNCH);
}

static void pass_launch(uint32_t call, const struct cupti_callback_data *data,
			struct proton_context where, bool is_kernel)
{
	call_gate_pass(CALL_GATE_LAUNCH);
}

static void on_context_destroy(void *context)
{
	struct measuring *session;

	if (!take_lock(LONG_GATE_NS))
		return;
	session = find_session(context);
	if (session && call_gate_close_between_captures(CALL_GATE_SAMPLING, 0)) {
		read_session(session);
		range_session_close(&session->cupti, true);
		call_gate_open();
	} else if (session) {
		range_session_close(&session->cupti, false); /* CUPTI forgets it with the context */
	}
	if (session)
		*session = sessions[--session_count];
	pthread_mutex_unlock(&lock);
}

/* Between start and stop. */
static const struct sampling_hooks on = {
	.has_gate = true,
	.begin_launch = begin_launch,
	.end_launch = end_launch,
	.on_context_destroy = on_context_destroy,
	.drops = drops_record,
	.captured_crc = captured_kernel,
	.attribute = attribute,
};

/* Counters have stopped, and CUPTI is attached: a launch that was counted has to leave the gate. */
static const struct sampling_hooks closing = {
	.has_gate = true,
	.begin_launch = pass_launch,
	.end_launch = end_launch,
	.drops = drops_record,
};

/* ------------------------------------------------------------------ life */

void counters_start(double budget)
{
	if (!atomic_exchange(&has_run, true)) { /* not if it was deactivated */
		range_count = 0;
		open_ns = 0;
		second_was_noted = false;
		start_ns = clock_monotonic_ns();
		atomic_store(&spent_ns, 0);
		for (size_t i = 0; i < LAUNCHES; i++)
			atomic_store_explicit(&launches[i], 0, memory_order_relaxed);
		counter_kernels_clear();
	}
	share = budget;
	if (!sampling_hooks_get()->has_gate)
		call_gate_reset(CALL_GATE_LAUNCH);
	record_observe_dispatches(note_execution);
	sampling_hooks_set(&on);
}

void counters_stop(void)
{
	bool is_closed;

	if (!is_on())
		return;
	if (!take_lock(CALL_GATE_LONG_NS)) /* a launch in a range does not return */
		return;
	is_closed = call_gate_close_between_captures(CALL_GATE_SAMPLING, CALL_GATE_LONG_NS);
	sampling_hooks_set(&closing);
	for (size_t i = 0; i < session_count && is_closed; i++) {
		read_session(&sessions[i]);
		range_session_close(&sessions[i].cupti, true);
	}
	session_count = is_closed ? 0 : session_count;
	if (is_closed)
		call_gate_open();
	pthread_mutex_unlock(&lock);
	record_observe_dispatches(NULL);
	counter_kernels_flush();
}

bool counters_were_used(void)
{
	return set_count;
}

void counters_leave(void)
{
	if (sampling_hooks_get() != &closing && !is_on())
		return;
	sampling_hooks_set(NULL);
	for (size_t i = 0; i < session_count; i++) /* a stop could not end them */
		range_session_close(&sessions[i].cupti, false);
	session_count = 0;
}

void counters_clear(void)
{
	atomic_store(&has_run, false);
}

/* In the child of a fork, which calls nothing of CUPTI. */
void counters_forked(void)
{
	counters_leave();
	counters_clear();
	session_count = 0;
}

void counters_describe(backend_add_fn add, void *user)
{
	char text[32];

	if (!atomic_load(&has_run))
		return;
	add(user, "counters", "roofline");
	snprintf(text, sizeof(text), "%.3g %%", share * 100);
	add(user, "counters_budget", text);
	gpu_describe_number(add, user, "counters_ranges", range_count);
	gpu_describe_number(add, user, "counters_sets", set_count);
	gpu_describe_number(add, user, "counters_kernels", counter_kernels_count());
	gpu_describe_number(add, user, "counters_kernels_measured", counter_kernels_measured());
	gpu_describe_number(add, user, "overhead_counters_ns", atomic_load(&spent_ns) + open_ns);
	if (l2_bytes_per_clock > 0) {
		snprintf(text, sizeof(text), "%.6g", l2_bytes_per_clock);
		add(user, "counters_l2_bytes_per_clock", text);
	}
}
