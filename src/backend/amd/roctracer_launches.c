/*
 * roctracer callbacks: at HIP calls that launch, copy, or make graphs, and at ROCTX ranges.
 *
 * The data of a callback do not have the result of the call. A call that failed has set HIP's last
 * error of the thread. If there was an error before, it is unknown whether the call failed. That is
 * not asked before the launch of one kernel, to save time: an error after it leaves doubt.
 */

#include "backend/amd/hip_calls.h"
#include "backend/amd/hip_graphs.h"
#include "backend/amd/roctracer_api.h"
#include "backend/gpu/launches.h"
#include "base/array.h"
#include "base/message.h"
#include "driver/amd_gpus.h"
#include "driver/driver.h"
#include "driver/hip_functions.h"
#include "record/nvtx/nvtx.h"
#include "record/record.h"
#include "record/thread/captured.h"

/* ------------------------------------------------------------------ calls */

enum call_kind {
	CALL_LAUNCH,
	CALL_GRAPH, /* a launch of a graph */
	CALL_MEMORY,
	CALL_OF_GRAPH, /* makes, changes or destroys a graph (hip_graphs.h) */
	CALL_DEVICE,   /* changes the thread's device */
};

static struct call {
	const char *name;
	uint8_t kind;            /* enum call_kind */
	uint8_t launch;          /* enum launch_kind */
	uint8_t arguments;       /* enum hip_arguments */
	uint8_t records;         /* enum launch_records */
	uint16_t stream;         /* memory calls: place of the stream, or NO_STREAM */
	uint8_t graph_call;      /* enum hip_graph_call */
	_Atomic uint32_t number; /* 0: this version of HIP does not have it */
} calls[] = {
#define L(call, arguments, records)                                                                \
	{#call, CALL_LAUNCH, LAUNCH_KERNEL, arguments, records, 0, 0, 0},
#define G(call) {#call, CALL_GRAPH, LAUNCH_GRAPH, ARGUMENTS_GRAPH, LAUNCH_MANY, 0, 0, 0},
#define M(call, records, stream, unit)                                                             \
	{#call, CALL_MEMORY, LAUNCH_MEMORY, 0, records, stream, 0, 0},
#define OF_GRAPH(call, its_call) {.name = #call, .kind = CALL_OF_GRAPH, .graph_call = its_call},
#define D(call) {.name = #call, .kind = CALL_DEVICE},
#include "backend/amd/hip_calls.def"
	HIP_GRAPH_CALLS(OF_GRAPH)
#undef OF_GRAPH
};

/* Finds the numbers of all calls. E_UNSUPPORTED if there is none to launch a kernel with. */
static int find_calls(struct proton_error *err)
{
	uint32_t launches = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
		uint32_t number = 0;
		uint32_t kind;
		int result = libroctracer.roctracer_op_code(ROCTRACER_DOMAIN_HIP_API, calls[i].name,
							    &number, &kind);

		if (result != ROCTRACER_OK && result != ROCTRACER_E_INVALID_ARGUMENT)
			return roctracer_api_status(result, "roctracer_op_code", err);
		if (result != ROCTRACER_OK)
			number = 0; /* this version does not know the call */
		atomic_store_explicit(&calls[i].number, number, memory_order_relaxed);
		launches += number && calls[i].kind == CALL_LAUNCH;
	}
	return launches ? PROTON_OK
			: err_set(err, PROTON_E_UNSUPPORTED,
				  "roctracer does not know any HIP call that launches a kernel; "
				  "its version does not fit Proton");
}

/* Sets it for all calls except memory operations, or for these; NULL: none. The first error. */
static int set_callbacks(bool is_memory, roctracer_callback_fn callback)
{
	int result = ROCTRACER_OK;

	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
		uint32_t number = atomic_load_explicit(&calls[i].number, memory_order_relaxed);
		int one;

		if (!number || (calls[i].kind == CALL_MEMORY) != is_memory)
			continue;
		one = callback
			      ? libroctracer.roctracer_enable_op_callback(
					ROCTRACER_DOMAIN_HIP_API, number, callback, &calls[i])
			      : libroctracer.roctracer_disable_op_callback(ROCTRACER_DOMAIN_HIP_API,
									   number);
		if (result == ROCTRACER_OK)
			result = one;
		if (callback && result != ROCTRACER_OK)
			break;
	}
	return result;
}

/* ------------------------------------------------------------------ arguments */

/* NULL: there are none. */
static const char *find_arguments(const struct call *call, const struct roctracer_hip_call *data)
{
	return hip_layouts[call->arguments].is_pointer ? (const char *)(uintptr_t)data->arguments[0]
						       : (const char *)data->arguments;
}

/* Keeps the configuration for the record of the launch, if the arguments have one. */
static void keep_config(const struct call *call, const struct roctracer_hip_call *data)
{
	const struct hip_layout *layout = &hip_layouts[call->arguments];
	const char *arguments = find_arguments(call, data);
	uint32_t sizes[6], shared_bytes;
	uint64_t words[3];

	if (!layout->shared_bytes || !arguments)
		return;
	memcpy(sizes, arguments + layout->grid, sizeof(sizes));
	memcpy(&shared_bytes, arguments + layout->shared_bytes, sizeof(shared_bytes));
	for (int i = 0; i < 3 && call->arguments == ARGUMENTS_EXT; i++)
		if (sizes[3 + i])
			sizes[i] =
				(uint32_t)(((uint64_t)sizes[i] + sizes[3 + i] - 1) / sizes[3 + i]);
	memcpy(words, sizes, sizeof(words));
	roctracer_records_keep((uint32_t)data->correlation_id, words, shared_bytes);
}

/* ------------------------------------------------------------------ launches */

static _Thread_local struct {
	bool had_error;       /* when the current call began */
	bool is_pending;      /* after the last call there was an error */
	uint32_t device_seen; /* `start` when the device was noted; 0: it was not */
} here;
static _Atomic uint32_t start; /* number of the start of callbacks, from 1 */
static bool has_roctx;         /* changed under the lock of the backend */

/* The first callback in the child of a fork: HIP must not fill a buffer that no thread empties. */
static void disable_in_child(void)
{
	enum roctracer_state state = ROCTRACER_ORPHANED;

	if (!atomic_compare_exchange_strong(&roctracer_state, &state, ROCTRACER_OFF))
		return;
	roctracer_records_stop();
	roctracer_launches_stop();
}

static bool has_error(void)
{
	return hip.hipPeekAtLastError && hip.hipPeekAtLastError() != 0;
}

static struct launch_call describe(const struct call *call, const struct roctracer_hip_call *data)
{
	return (struct launch_call){
		.correlation = (uint32_t)data->correlation_id,
		.kind = call->launch,
		.records = call->records,
	};
}

/*
 * Asks HIP for the thread's device, at its first launch and at the first one after a call that may
 * have changed it. Its properties are read here: the thread of the records must not call HIP, which
 * may wait for that thread.
 */
static void note_device(void)
{
	uint32_t now = atomic_load_explicit(&start, memory_order_relaxed);
	void *context;

	/* In ROCm 6 a call that succeeds clears the error, which the program may look for later. */
	if (here.device_seen == now || has_error() || libhip.cuCtxGetCurrent(&context) != 0)
		return;
	contexts_note(context);
	gpu_device_of_hip((uint32_t)(uintptr_t)context - 1); /* hip_driver.h */
	amd_gpus_ordinal_of_node(0);                         /* of all nodes */
	here.device_seen = now;
}

static void on_enter(const struct call *call, const struct roctracer_hip_call *data)
{
	struct launch_call launch;
	struct proton_context where;

	here.had_error = call->records != LAUNCH_ONE && has_error();
	launch = describe(call, data);
	where = launches_begin(&launch);
	if (call->kind == CALL_GRAPH)
		hip_replays_begin(data->arguments[0], (uint32_t)data->correlation_id, where);
	if (proton_context_is_empty(where))
		return;
	keep_config(call, data);
	note_device();
}

/* The stream of a launch or a memory operation; 0: the default stream, or unknown. */
static uint64_t stream_of(const struct call *call, const struct roctracer_hip_call *data)
{
	const char *arguments = find_arguments(call, data);
	uint32_t place = call->kind == CALL_MEMORY ? call->stream
						   : hip_layouts[call->arguments].stream;
	uint64_t stream = 0;

	if (arguments && place && place != NO_STREAM)
		memcpy(&stream, arguments + place, sizeof(stream));
	return stream;
}

/* True if the call added work to a graph instead. */
static bool was_captured(const struct call *call, const struct roctracer_hip_call *data)
{
	uint64_t stream, number;

	if (!captured_any_open())
		return false;
	stream = stream_of(call, data);
	return call->kind == CALL_GRAPH
		       ? hip_streams_capture(stream, &number)
		       : hip_graphs_take(stream, call->kind == CALL_LAUNCH ? HIP_NODE_KERNEL
									   : HIP_NODE_MEMORY);
}

static void on_exit_of(const struct call *call, const struct roctracer_hip_call *data)
{
	bool has_error_now = has_error();
	bool is_new = has_error_now && !here.is_pending;
	bool is_doubtful = has_error_now && call->records == LAUNCH_ONE;
	bool has_failed = has_error_now && !is_doubtful && !here.had_error;
	bool is_captured = !is_new && !has_failed && was_captured(call, data);
	struct launch_call launch = describe(call, data);

	/* A new error may be this call's. To ask about a capture would clear it in ROCm 6. */
	here.is_pending = has_error_now;
	if (is_doubtful)
		launches_doubt(&launch);
	if (is_captured)
		launches_set_captured();
	if (call->kind == CALL_GRAPH)
		hip_replays_end(has_failed || is_captured);
	launches_end(&launch, has_failed);
}

static void on_graph_call(const struct call *call, const struct roctracer_hip_call *data)
{
	bool is_enter = data->phase == ROCTRACER_ENTER;

	if (is_enter)
		here.had_error = has_error();
	hip_graphs_on_call(call->graph_call, data->arguments, true, is_enter,
			   !is_enter && !here.had_error && has_error());
}

static void on_launch(const struct call *call, const struct roctracer_hip_call *data)
{
	bool is_enter = data->phase == ROCTRACER_ENTER;
	struct launches_timer timer = launches_timer_begin(is_enter);

	if (is_enter)
		on_enter(call, data);
	else
		on_exit_of(call, data);
	launches_timer_end(timer);
	/* In case of a change that roctracer did not report; not in a timed callback. */
	if (is_enter && timer.weight)
		here.device_seen = 0;
}

static void on_hip_call(const struct call *call, const struct roctracer_hip_call *data)
{
	if (call->kind == CALL_OF_GRAPH)
		on_graph_call(call, data);
	else if (call->kind == CALL_DEVICE)
		here.device_seen = 0;
	else
		on_launch(call, data);
}

static void on_callback(uint32_t domain, uint32_t number, const void *data, void *user)
{
	/* relaxed: set by the only thread of the child, in the fork */
	if (atomic_load_explicit(&roctracer_state, memory_order_relaxed) == ROCTRACER_ORPHANED)
		disable_in_child();
	else if (domain == ROCTRACER_DOMAIN_HIP_API)
		on_hip_call(user, data);
	else if (domain == ROCTRACER_DOMAIN_ROCTX && number == ROCTRACER_ROCTX_PUSH)
		nvtx_push(((const struct roctracer_roctx_data *)data)->message);
	else if (domain == ROCTRACER_DOMAIN_ROCTX && number == ROCTRACER_ROCTX_POP)
		nvtx_pop();
}

/* Without ranges the session starts too. */
static void enable_ranges(void)
{
	has_roctx = nvtx_is_wanted() && roctracer_api_load_roctx();
	for (uint32_t i = ROCTRACER_ROCTX_PUSH; i <= ROCTRACER_ROCTX_POP && has_roctx; i++)
		if (libroctracer.roctracer_enable_op_callback(ROCTRACER_DOMAIN_ROCTX, i,
							      on_callback, NULL) != ROCTRACER_OK)
			message_once("cannot record ROCTX ranges: roctracer refused their "
				     "callbacks");
}

/* All or nothing. */
static int enable_calls(bool is_memory, struct proton_error *err)
{
	int result = set_callbacks(is_memory, on_callback);

	if (result != ROCTRACER_OK)
		set_callbacks(is_memory, NULL);
	return roctracer_api_status(result, "roctracer_enable_op_callback", err);
}

int roctracer_launches_start(struct proton_error *err)
{
	int status = find_calls(err);

	atomic_fetch_add(&start, 1);
	if (status == PROTON_OK)
		status = enable_calls(false, err);
	if (status != PROTON_OK)
		return status;
	launches_start();
	enable_ranges();
	return PROTON_OK;
}

void roctracer_launches_stop(void)
{
	int result = set_callbacks(false, NULL);
	int other = set_callbacks(true, NULL);

	if (has_roctx) {
		libroctracer.roctracer_disable_op_callback(ROCTRACER_DOMAIN_ROCTX,
							   ROCTRACER_ROCTX_PUSH);
		libroctracer.roctracer_disable_op_callback(ROCTRACER_DOMAIN_ROCTX,
							   ROCTRACER_ROCTX_POP);
	}
	has_roctx = false;
	if (result != ROCTRACER_OK || other != ROCTRACER_OK)
		message("cannot disable roctracer callbacks (roctracer_disable_op_callback: error "
			"%d); their overhead remains",
			result ? result : other);
	launches_stop();
	contexts_clear();
}

int roctracer_launches_set_memory(bool is_wanted, struct proton_error *err)
{
	if (is_wanted)
		return enable_calls(true, err);
	set_callbacks(true, NULL);
	return PROTON_OK;
}
