/*
 * roctracer callbacks: at HIP calls that launch, copy, or make graphs, and at ROCTX ranges.
 *
 * The data of a callback do not have the result of the call. A call that failed has set HIP's last
 * error of the thread. If there was an error before, it is unknown whether the call failed. That is
 * not asked before the launch of one kernel, to save time: an error after it leaves doubt.
 */
#include "backend/amd/hip_graphs.h"
#include "backend/amd/roctracer_calls.h"
#include "backend/gpu/launches.h"
#include "base/message.h"
#include "driver/amd_gpus.h"
#include "driver/driver.h"
#include "driver/hip_functions.h"
#include "record/nvtx/nvtx.h"
#include "record/record.h"
#include "record/thread/captured.h"

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

static struct launch_call describe(const struct roctracer_call *call,
				   const struct roctracer_hip_call *data)
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

static void on_enter(const struct roctracer_call *call, const struct roctracer_hip_call *data)
{
	struct roctracer_config config;
	struct launch_call launch;
	struct proton_context where;

	here.had_error = call->records != LAUNCH_ONE && has_error();
	launch = describe(call, data);
	where = launches_begin(&launch);
	if (call->kind == CALL_GRAPH)
		hip_replays_begin((uintptr_t)data->args.graph_launch.graph_exec,
				  (uint32_t)data->correlation_id, where);
	if (proton_context_is_empty(where))
		return;
	if (roctracer_calls_read(call, data, &config))
		roctracer_calls_keep((uint32_t)data->correlation_id, &config);
	note_device();
}

/* True if the call added work to a graph instead. */
static bool was_captured(const struct roctracer_call *call, const struct roctracer_hip_call *data)
{
	uint64_t stream, number;

	if (!captured_any_open())
		return false;
	stream = roctracer_calls_stream(call, data);
	return call->kind == CALL_GRAPH ? hip_streams_capture(stream, &number)
					: hip_graphs_take(stream, call->kind == CALL_LAUNCH);
}

static void on_exit_of(const struct roctracer_call *call, const struct roctracer_hip_call *data)
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

static void on_graph_call(const struct roctracer_call *call, const struct roctracer_hip_call *data)
{
	bool is_enter = data->phase == ROCTRACER_ENTER;

	if (is_enter)
		here.had_error = has_error();
	hip_graphs_on_call(call->graph_call, &data->args, true, is_enter,
			   !is_enter && !here.had_error && has_error());
}

static void on_launch(const struct roctracer_call *call, const struct roctracer_hip_call *data)
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

static void on_hip_call(const struct roctracer_call *call, const struct roctracer_hip_call *data)
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
	static const uint32_t calls[] = {ROCTRACER_ROCTX_PUSH, ROCTRACER_ROCTX_POP};

	has_roctx = nvtx_is_wanted() && roctracer_api_load_roctx();
	for (int i = 0; i < 2 && has_roctx; i++)
		if (libroctracer.roctracer_enable_op_callback(ROCTRACER_DOMAIN_ROCTX, calls[i],
							      on_callback, NULL) != ROCTRACER_OK)
			message_once("cannot record ROCTX ranges: roctracer refused their "
				     "callbacks");
}

int roctracer_launches_start(struct proton_error *err)
{
	int status = roctracer_calls_find(err);

	atomic_fetch_add(&start, 1);
	if (status == PROTON_OK)
		status = roctracer_calls_enable(false, on_callback, err);
	if (status != PROTON_OK)
		return status;
	launches_start();
	enable_ranges();
	return PROTON_OK;
}

void roctracer_launches_stop(void)
{
	int result = roctracer_calls_disable(false);
	int other = roctracer_calls_disable(true);

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
		return roctracer_calls_enable(true, on_callback, err);
	roctracer_calls_disable(true);
	return PROTON_OK;
}
