/*
 * Calls of HIP that launch work, on the application's thread. A call is attributed when it begins.
 * Within it the library asks for an external correlation at each dispatch that it will report. That
 * gives the exact number of records to wait for, whatever the call does: a capture makes none, and
 * the runtime may add a kernel.
 */
#include <stdatomic.h>
#include <string.h>

#include "backend/amd/hip_graphs.h"
#include "backend/amd/roctracer_api.h"
#include "backend/amd/sdk_backend.h"
#include "backend/gpu/launches.h"
#include "base/map.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "record/nvtx/nvtx.h"
#include "record/thread/captured.h"

#define SIZES 65536u /* a power of two */

/* The outermost call of this thread. Calls inside it belong to it. */
static _Thread_local struct {
	uint32_t depth;
	uint32_t ordinal;       /* dispatches and copies so far */
	uint64_t stream_handle; /* the newest call's */
	uint32_t stream;        /* its number */
	enum sdk_call_kind kind;
	struct launch_call call;
} here;

static _Atomic uint32_t extras;
static _Atomic uint64_t silent;
static _Atomic uint64_t strange; /* dispatches that are not of the call in which they were made */
static _Atomic uint64_t first_internal; /* correlation of the first call since the start; 0: none */

/* Bytes of memory calls, by number. An entry is overwritten by a later call. */
static struct {
	_Atomic uint32_t number;
	_Atomic uint64_t bytes;
} sizes[SIZES];

/* For dispatches that need their own: from the top, far from the ids of calls. */
static uint32_t take_number(void)
{
	uint32_t count = atomic_fetch_add_explicit(&extras, 1, memory_order_relaxed);

	return UINT32_MAX - count % (1u << 30) - 1;
}

void sdk_callbacks_start(void)
{
	atomic_store(&silent, 0);
	atomic_store(&strange, 0);
	atomic_store(&first_internal, 0);
}

uint64_t sdk_callbacks_take_silent(uint64_t *elsewhere_out)
{
	uint64_t count = atomic_exchange(&silent, 0);
	uint64_t others = atomic_exchange(&strange, 0);

	*elsewhere_out = others < count ? others : count;
	return count - *elsewhere_out;
}

static void note_first(uint64_t internal)
{
	uint64_t none = 0;

	if (!atomic_load_explicit(&first_internal, memory_order_relaxed))
		atomic_compare_exchange_strong(&first_internal, &none, internal);
}

bool sdk_callbacks_is_older(uint64_t internal)
{
	uint64_t first = atomic_load_explicit(&first_internal, memory_order_relaxed);

	return !first || internal < first;
}

uint64_t sdk_callbacks_bytes(uint32_t number)
{
	uint64_t bytes = atomic_load_explicit(&sizes[number % SIZES].bytes, memory_order_acquire);

	return atomic_load_explicit(&sizes[number % SIZES].number, memory_order_relaxed) == number
		       ? bytes
		       : 0;
}

/* ------------------------------------------------------------------ streams */

#define STREAM_NUMBER_MAX 4095u /* more streams are not told apart */

static struct map streams;                               /* numbers by handle */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards writing */

static uint32_t add_stream(uint64_t handle)
{
	MUTEX_HOLD(&lock);
	uint32_t number = map_find(&streams, handle);

	if (!number && streams.count < STREAM_NUMBER_MAX - 1) {
		number = (uint32_t)streams.count + 1;
		if (!map_insert(&streams, handle, number))
			number = 0;
	}
	return number ? number : STREAM_NUMBER_MAX;
}

/* 0: the default stream; others count from 1 by first use, and by address. */
static uint32_t number_of_stream(uint64_t handle)
{
	uint32_t number = handle ? map_find(&streams, handle) : 0;

	return number || !handle ? number : add_stream(handle);
}

/* ------------------------------------------------------------------ arguments */

static uint64_t argument(const struct sdk_call *call, int offset)
{
	uint64_t value = 0;

	if (offset >= 0 && call->size >= sizeof(*call) + (uint64_t)offset + sizeof(value))
		memcpy(&value, (const char *)call->arguments + offset, sizeof(value));
	return value;
}

static uint64_t stream_of(const struct sdk_call_info *info, const struct sdk_call *call)
{
	uint64_t value = argument(call, info->is_pointer ? 0 : info->stream);

	if (info->is_pointer && value)
		memcpy(&value, (const char *)(uintptr_t)value + info->stream, sizeof(value));
	return value;
}

/* The result of a call that has returned; 0 is success. */
static int result_of(const struct sdk_call *call)
{
	int result = 0;

	if (call->size >= sizeof(*call) + SDK_RESULT_BYTES)
		memcpy(&result, (const char *)call + call->size - SDK_RESULT_BYTES, sizeof(result));
	return result;
}

static void note_bytes(uint32_t number, uint64_t bytes)
{
	atomic_store_explicit(&sizes[number % SIZES].number, number, memory_order_relaxed);
	atomic_store_explicit(&sizes[number % SIZES].bytes, bytes, memory_order_release);
}

/* ------------------------------------------------------------------ calls */

static void on_begin(const struct sdk_call_info *info, const struct sdk_call *call,
		     uint64_t internal)
{
	static const struct launch_call calls[] = {
		[SDK_CALL_LAUNCH] = {.kind = LAUNCH_KERNEL, .records = LAUNCH_ONE},
		[SDK_CALL_GRAPH_LAUNCH] = {.kind = LAUNCH_GRAPH, .records = LAUNCH_MANY},
		[SDK_CALL_MEMORY] = {.kind = LAUNCH_MEMORY, .records = LAUNCH_MANY},
	};
	uint64_t handle = stream_of(info, call);

	struct proton_context where;

	here.ordinal = 0;
	here.kind = info->kind;
	if (handle != here.stream_handle)
		here.stream = number_of_stream(handle);
	here.stream_handle = handle;
	here.call = calls[info->kind];
	here.call.correlation = (uint32_t)internal ? (uint32_t)internal : UINT32_MAX;
	if (info->kind == SDK_CALL_MEMORY)
		note_bytes(here.call.correlation, argument(call, info->bytes) * info->unit);
	where = launches_begin(&here.call);
	if (info->kind == SDK_CALL_GRAPH_LAUNCH)
		hip_replays_begin(argument(call, 0), here.call.correlation, where);
}

/* Any thread may have begun the capture, and the stream may have joined it by an event. */
static bool is_capturing(void)
{
	int status = 0;

	return captured_any_open() ||
	       (libhip.cuStreamIsCapturing &&
		libhip.cuStreamIsCapturing(driver_handle(here.stream_handle), &status) == 0 &&
		status);
}

/* A call without a dispatch failed, was captured, or its queue is unknown to the library. */
static void on_call_end(const struct sdk_call *call)
{
	bool has_failed = result_of(call) != 0;
	bool is_captured = !here.ordinal && !has_failed && captured_any_open() &&
			   hip_graphs_take(here.stream_handle, here.kind == SDK_CALL_LAUNCH
								       ? HIP_NODE_KERNEL
								       : HIP_NODE_MEMORY);

	if (here.kind == SDK_CALL_GRAPH_LAUNCH)
		hip_replays_end(has_failed || is_captured);
	if (!here.ordinal)
		launches_set_captured();
	if (!here.ordinal && !has_failed && here.kind == SDK_CALL_LAUNCH &&
	    launches_here.is_wanted && !is_capturing())
		atomic_fetch_add_explicit(&silent, 1, memory_order_relaxed);
	launches_end(&here.call, has_failed && !here.ordinal);
}

static void on_graph_call(const struct sdk_call_info *info, bool is_begin,
			  const struct sdk_call *call)
{
	/* the longest arguments that are read, and the result */
	if (call->size >= sizeof(*call) + 3 * sizeof(uint64_t) + SDK_RESULT_BYTES)
		hip_graphs_on_call((enum hip_graph_call)info->graph, call->arguments, false,
				   is_begin, !is_begin && result_of(call) != 0);
}

static void on_work(const struct sdk_call_info *info, bool is_begin, const struct sdk_call *call,
		    uint64_t internal)
{
	struct launches_timer timer = launches_timer_begin(is_begin);

	if (is_begin && here.depth++ == 0)
		on_begin(info, call, internal);
	else if (!is_begin && --here.depth == 0)
		on_call_end(call);
	launches_timer_end(timer);
}

/* *user is 0 at a call's beginning: one that was not counted then is not counted at its end. */
void sdk_callbacks_on_call(struct sdk_callback_record record, uint64_t *user, void *data)
{
	enum sdk_state state = sdk_state_now();
	const struct sdk_call_info *info;
	bool is_begin = record.phase == SDK_PHASE_ENTER;

	if (state == SDK_ORPHANED)
		sdk_contexts_stop_orphan();
	if (state == SDK_ORPHANED || (is_begin ? state != SDK_ON : !*user) ||
	    (uint32_t)record.operation >= SDK_OPERATION_MAX)
		return;
	*user = 1;
	info = &sdk_calls[record.operation];
	switch ((enum sdk_call_kind)info->kind) {
	case SDK_CALL_LAUNCH:
	case SDK_CALL_GRAPH_LAUNCH:
	case SDK_CALL_MEMORY:
		note_first(record.internal);
		on_work(info, is_begin, record.payload, record.internal);
		break;
	case SDK_CALL_GRAPH:
		on_graph_call(info, is_begin, record.payload);
		break;
	case SDK_CALL_OTHER:
		break;
	}
}

/* The launch of a graph, within the call. */
void sdk_callbacks_on_graph(struct sdk_callback_record record, uint64_t *user, void *data)
{
	if (sdk_state_now() == SDK_ON)
		hip_replays_event(record.phase == SDK_PHASE_ENTER);
}

/* A dispatch or a copy is about to be queued. 0: *external is set. */
int sdk_callbacks_on_request(uint64_t thread_id, struct sdk_context context, int kind,
			     int32_t operation, uint64_t internal, uint64_t *external, void *data)
{
	union sdk_external mine = {.word = 0};
	enum sdk_state state = sdk_state_now();
	uint64_t ordinal = 1;

	if (state == SDK_ORPHANED)
		sdk_contexts_stop_orphan();
	if (state != SDK_ON)
		return 1;
	if (here.depth) {
		mine.number = here.call.correlation;
		ordinal = ++here.ordinal;
		if (here.kind == SDK_CALL_GRAPH_LAUNCH)
			ordinal = hip_replays_next();
		mine.stream = here.stream & STREAM_NUMBER_MAX;
		mine.is_of_memory_call = here.kind == SDK_CALL_MEMORY;
	}
	/* A second kernel of a launch, or work of a call that the backend does not know. */
	if (!here.depth || (here.kind == SDK_CALL_LAUNCH && ordinal > 1)) {
		note_first(internal);
		mine.number = take_number();
		launches_add(mine.number);
		atomic_fetch_add_explicit(&strange, 1, memory_order_relaxed);
	}
	mine.ordinal = (ordinal < SDK_ORDINAL_MAX ? ordinal : SDK_ORDINAL_MAX) & SDK_ORDINAL_MAX;
	mine.is_ours = true;
	*external = mine.word;
	return 0;
}

/* ------------------------------------------------------------------ ROCTX */

void sdk_callbacks_on_marker(struct sdk_callback_record record, uint64_t *user, void *data)
{
	if (record.phase != SDK_PHASE_ENTER || sdk_state_now() != SDK_ON || !nvtx_is_wanted())
		return;
	if (record.operation == sdk_kinds.range_push)
		nvtx_push((const char *)(uintptr_t)argument(record.payload, 0));
	else
		nvtx_pop();
}

typedef int (*roctx_fn)(uint32_t domain, uint32_t number, const void *data);
typedef void (*set_roctx_fn)(roctx_fn callback);

/* PyTorch's ranges come from libroctx64, which the library does not see. */
static int on_roctx(uint32_t domain, uint32_t number, const void *data)
{
	if (sdk_state_now() != SDK_ON || domain != ROCTRACER_DOMAIN_ROCTX)
		return 0;
	if (number == ROCTRACER_ROCTX_PUSH)
		nvtx_push(((const struct roctracer_roctx_data *)data)->message);
	else if (number == ROCTRACER_ROCTX_POP)
		nvtx_pop();
	return 0;
}

void sdk_callbacks_follow_roctx(bool is_on)
{
	static set_roctx_fn set; /* while a session follows them */
	void *symbol = is_on && nvtx_is_wanted() ? roctracer_api_load_roctx() : NULL;

	if (is_on)
		memcpy(&set, &symbol, sizeof(set)); /* a pointer to code */
	if (set)
		set(is_on ? on_roctx : NULL);
}
