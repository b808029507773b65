/*
 * CUPTI API callbacks at each launch call of the driver. The runtime's launch calls end in the
 * driver's, so each launch is seen once.
 *
 * The callback runs on the application's thread inside the launch: it finds the thread's context
 * and makes one store under the correlation ID that the kernel's record will carry.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/callbacks.h"
#include "backend/cuda/hold.h"
#include "backend/cuda/interface.h"
#include "backend/cuda/kernel_times.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/sampling_hooks.h"
#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/launches.h"
#include "base/array.h"
#include "base/message.h"
#include "record/thread/captured.h"

/* Launches, then captures. */
static const uint32_t driver_calls[] = {
	CUPTI_CALL_LAUNCH,
	CUPTI_CALL_LAUNCH_GRID,
	CUPTI_CALL_LAUNCH_GRID_ASYNC,
	CUPTI_CALL_LAUNCH_KERNEL,
	CUPTI_CALL_LAUNCH_KERNEL_PTSZ,
	CUPTI_CALL_LAUNCH_KERNEL_EX,
	CUPTI_CALL_LAUNCH_KERNEL_EX_PTSZ,
	CUPTI_CALL_LAUNCH_COOPERATIVE,
	CUPTI_CALL_LAUNCH_COOPERATIVE_PTSZ,
	CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE,
	CUPTI_CALL_GRAPH_LAUNCH,
	CUPTI_CALL_GRAPH_LAUNCH_PTSZ,
	CUPTI_CALL_BEGIN_CAPTURE,
	CUPTI_CALL_BEGIN_CAPTURE_PTSZ,
	CUPTI_CALL_BEGIN_CAPTURE_V2,
	CUPTI_CALL_BEGIN_CAPTURE_V2_PTSZ,
	CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH,
	CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH_PTSZ,
	CUPTI_CALL_END_CAPTURE,
	CUPTI_CALL_END_CAPTURE_PTSZ,
};

/* While one of these is in flight, CUPTI cannot be left. */
enum {
	CALL_COUNTED = 1,
	CALL_OF_THREAD = 2, /* and its thread has to be held */
	CALL_WAITS = 3,     /* counted in such threads */
	CALL_OF_HOST = 4,   /* launches a host function */
};

#define CALL_MAX 1024u

static const uint8_t graph_calls[CALL_MAX] = {
#define G(name, number) [number] = CALL_COUNTED,
#define T(name, number) [number] = CALL_OF_THREAD,
#define W(name, number) [number] = CALL_WAITS,
#define H(name, number) [number] = CALL_OF_HOST,
#include "backend/cuda/graph_calls.def"
#undef G
};

static const uint32_t resource_events[] = {
	CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING,   CUPTI_RESOURCE_GRAPH_CREATED,
	CUPTI_RESOURCE_GRAPH_DESTROY_STARTING,     CUPTI_RESOURCE_GRAPHNODE_CREATE_STARTING,
	CUPTI_RESOURCE_GRAPHNODE_CREATED,          CUPTI_RESOURCE_GRAPHNODE_CLONED,
	CUPTI_RESOURCE_GRAPHEXEC_CREATE_STARTING,  CUPTI_RESOURCE_GRAPHEXEC_CREATED,
	CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING,
};

/* For PC sampling. */
static const uint32_t module_events[] = {
	CUPTI_RESOURCE_CONTEXT_CREATED,
	CUPTI_RESOURCE_MODULE_LOADED,
	CUPTI_RESOURCE_MODULE_UNLOAD_STARTING,
};

static const uint32_t module_calls[] = {
#define M(name, number) number,
#include "backend/cuda/pcs_module_calls.def"
#undef M
};

static void *subscriber;
static _Atomic bool is_paused;       /* nothing is recorded */
static _Atomic bool is_between;      /* windows: nothing is recorded */
static _Atomic bool ended_was_noted; /* sessions may flush at the same time */
/* The last launch of this thread with a callback at its beginning, and the graph of its node. */
static _Thread_local uint32_t launch_here;
static _Thread_local const void *captured_graph;

/* Prints the warning once per subscription. */
static void note_ended(void)
{
	if (!atomic_exchange(&ended_was_noted, true))
		message("another tool in this process called cuptiFinalize while Proton was "
			"recording; later kernels are not recorded until a new session starts");
}

bool callbacks_were_ended(void)
{
	return atomic_load(&ended_was_noted);
}

static bool is_graph_launch(uint32_t call)
{
	return call == CUPTI_CALL_GRAPH_LAUNCH || call == CUPTI_CALL_GRAPH_LAUNCH_PTSZ;
}

static struct launch_call describe(uint32_t call, uint32_t correlation)
{
	struct launch_call described = {.correlation = correlation};

	/* The driver decides whether a copy makes no record, one or many. */
	if (memory_is_call(call)) {
		described.kind = LAUNCH_MEMORY;
		described.records = memory_is_batch(call) ? LAUNCH_MANY : LAUNCH_ANY;
	} else if (is_graph_launch(call)) {
		described.kind = LAUNCH_GRAPH;
		described.records = LAUNCH_MANY;
	} else if (call == CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE) {
		described.records = LAUNCH_MANY;
	}
	return described;
}

/* Calls that make or change graphs, modules and contexts take locks that CUPTI takes as well. */
static void gate(enum call_gate_kind kind, const struct cupti_callback_data *data)
{
	if (data->site == CUPTI_SITE_ENTER)
		call_gate_pass(kind);
	else
		call_gate_leave(kind);
}

static void count_graph_call(const struct cupti_callback_data *data, int kind)
{
	if (data->site != CUPTI_SITE_ENTER) {
		call_gate_leave(CALL_GATE_GRAPH);
		return;
	}
	if (kind == CALL_OF_THREAD)
		hold_note_call();
	if (kind == CALL_OF_HOST)
		hold_note_host_function();
	if (kind != CALL_WAITS || hold_uses_graphs_here())
		call_gate_pass(CALL_GATE_GRAPH);
}

static void on_graph_call(const struct cupti_callback_data *data, int kind)
{
	count_graph_call(data, kind);
	if (kind != CALL_WAITS)
		gate(CALL_GATE_CHANGE, data);
}

static bool is_skipped(void)
{
	/* relaxed: a launch at the moment of a change may be on either side */
	return atomic_load_explicit(&is_paused, memory_order_relaxed);
}

/* The first parameter of cuGraphLaunch() is the executable graph. */
static void on_graph_launch(const struct cupti_callback_data *data)
{
	void *const *params = data->function_params;

	if (data->site == CUPTI_SITE_ENTER && params && !is_skipped() && !atomic_load(&is_between))
		replayed_graphs_note(params[0]);
	count_graph_call(data, CALL_OF_THREAD);
	gate(CALL_GATE_REPLAY, data);
}

/* A launch that is not recorded: it may meet the end of sampling, or the next beginning. */
static void count_launch(uint32_t call, const struct cupti_callback_data *data)
{
	if (sampling_hooks_get()->has_gate && !memory_is_call(call))
		gate(CALL_GATE_LAUNCH, data);
}

/* Between windows. */
static void pass_launch(uint32_t call, const struct cupti_callback_data *data)
{
	count_launch(call, data);
	if (data->site == CUPTI_SITE_ENTER) {
		/* The end of an earlier one is not reported if CUPTI was left in it. */
		launches_here.is_open = launches_here.is_captured = false;
		launches_skip(data->correlation_id);
	}
}

static void record_launch(uint32_t call, const struct cupti_callback_data *data)
{
	struct launch_call launch = describe(call, data->correlation_id);
	struct launches_timer timer = launches_timer_begin(data->site == CUPTI_SITE_ENTER);
	const struct sampling_hooks *hooks = sampling_hooks_get();
	bool is_sampled = hooks->has_gate && launch.kind != LAUNCH_MEMORY;

	if (atomic_load_explicit(&is_between, memory_order_relaxed) &&
	    (data->site == CUPTI_SITE_ENTER || !launches_here.is_open)) {
		pass_launch(call, data);
		return;
	}
	if (data->site == CUPTI_SITE_ENTER) {
		struct proton_context where;

		if (launch.kind == LAUNCH_KERNEL)
			launch.kernel = data->symbol_name;
		where = launches_begin(&launch);

		contexts_note(data->context);
		if (is_sampled)
			hooks->begin_launch(call, data, where, launch.kind == LAUNCH_KERNEL);
	} else {
		const int *result = data->function_return_value;

		if (is_sampled)
			hooks->end_launch(data);
		launches_end(&launch, result && *result != 0);
	}
	launches_timer_end(timer);
}

/*
 * Also while nothing is recorded: else a launch without a callback at its beginning has the graph
 * of an earlier one. If the capture of that has ended, nothing would end it again.
 */
static void note_captured(const struct cupti_callback_data *data)
{
	if (data->site == CUPTI_SITE_ENTER) {
		launch_here = data->correlation_id;
		captured_graph = NULL;
	} else if (captured_graph && launch_here == data->correlation_id) {
		captured_note_graph(captured_graph);
	}
}

static void on_launch(uint32_t call, const struct cupti_callback_data *data)
{
	if (is_graph_launch(call))
		on_graph_launch(data);
	note_captured(data);
	if (is_skipped())
		count_launch(call, data);
	else if (memory_is_wanted() || !memory_is_call(call))
		record_launch(call, data);
}

/* The second parameter of cuStreamEndCapture() is where it puts the graph. */
static void end_capture(const struct cupti_callback_data *data)
{
	void **const *params = data->function_params;

	if (params && params[1])
		captured_forget_graph(*params[1]);
	captured_nodes_end_capture();
}

/* The first parameter of these calls is the stream; 1 and 2 are streams of their own per thread. */
static uint64_t key_of_capture(const struct cupti_callback_data *data)
{
	void *const *params = data->function_params;
	uint64_t stream = params ? (uintptr_t)params[0] : 0;

	return stream > 2 ? stream : (uintptr_t)&captured_graph;
}

static void note_capture(const struct cupti_callback_data *data, bool is_begin)
{
	const int *result = data->function_return_value;
	bool is_good = !result || *result == 0;

	if (is_begin && !is_good)
		return;
	if (is_begin) {
		captured_nodes_begin_capture();
		captured_begin(key_of_capture(data));
		return;
	}
	if (is_good)
		end_capture(data);
	else
		captured_forget_unseen(); /* it may be any; others are noted again */
	captured_end(key_of_capture(data));
}

static void on_capture_call(const struct cupti_callback_data *data, bool is_begin)
{
	if (data->site == CUPTI_SITE_EXIT)
		note_capture(data, is_begin); /* before the gate can close */
	gate(is_begin ? CALL_GATE_CAPTURE : CALL_GATE_CHANGE, data);
}

static bool is_graph_call(uint32_t call)
{
	return call < CALL_MAX && graph_calls[call];
}

/* Calls of pcs_module_calls.def, some of which are graph calls too. */
static bool on_module_call(uint32_t call, const struct cupti_callback_data *data)
{
	const struct sampling_hooks *hooks = sampling_hooks_get();

	switch (call) {
#define M(name, number) case number:
#define Q(name, number)
#include "backend/cuda/pcs_module_calls.def"
#undef M
		if (hooks->on_module_call)
			hooks->on_module_call(call, data);
		return true;
#define M(name, number)
#define Q(name, number) case number:
#include "backend/cuda/pcs_module_calls.def"
#undef M
		if (hooks->on_query)
			hooks->on_query(data);
		return true;
	default:
		return is_graph_call(call);
	}
}

static void on_driver_call(uint32_t call, const struct cupti_callback_data *data)
{
	switch (call) {
	case CUPTI_CALL_BEGIN_CAPTURE:
	case CUPTI_CALL_BEGIN_CAPTURE_PTSZ:
	case CUPTI_CALL_BEGIN_CAPTURE_V2:
	case CUPTI_CALL_BEGIN_CAPTURE_V2_PTSZ:
	case CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH:
	case CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH_PTSZ:
		on_capture_call(data, true);
		break;
	case CUPTI_CALL_END_CAPTURE:
	case CUPTI_CALL_END_CAPTURE_PTSZ:
		on_capture_call(data, false);
		break;
	default: /* no other calls are enabled */
		if (is_graph_call(call))
			on_graph_call(data, graph_calls[call]);
		if (!on_module_call(call, data))
			on_launch(call, data);
		break;
	}
}

static void on_resource(uint32_t event, const struct cupti_resource_data *resource)
{
	const struct sampling_hooks *hooks = sampling_hooks_get();
	const struct cupti_graph_data *graph = resource->resource_descriptor;

	switch (event) {
	case CUPTI_RESOURCE_CONTEXT_CREATED:
		if (hooks->on_context)
			hooks->on_context(resource->context);
		break;
	case CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING:
		contexts_forget(resource->context);
		if (hooks->on_context_destroy)
			hooks->on_context_destroy(resource->context);
		break;
	case CUPTI_RESOURCE_MODULE_LOADED:
	case CUPTI_RESOURCE_MODULE_UNLOAD_STARTING:
	case CUPTI_RESOURCE_MODULE_PROFILED:
		if (hooks->on_module_event)
			hooks->on_module_event(event, resource->resource_descriptor);
		break;
	case CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING:
		replayed_graphs_forget(graph->graph_exec);
		graphs_on_resource(event, resource->resource_descriptor);
		break;
	case CUPTI_RESOURCE_GRAPH_DESTROY_STARTING:
		captured_forget_graph(graph->graph);
		graphs_on_resource(event, resource->resource_descriptor);
		break;
	case CUPTI_RESOURCE_GRAPHNODE_CREATED:
		launches_set_captured();
		captured_graph = graph->graph;
		graphs_on_resource(event, resource->resource_descriptor);
		break;
	default:
		graphs_on_resource(event, resource->resource_descriptor);
		break;
	}
}

static void on_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
	if (cupti_is_orphaned())
		return;
	if (domain == CUPTI_DOMAIN_DRIVER_API) {
		on_driver_call(call, data);
	} else if (domain == CUPTI_DOMAIN_RESOURCE) {
		on_resource(call, data);
	}
}

static int enable_events(uint32_t on, const uint32_t *events, size_t count)
{
	int result = CUPTI_OK;

	for (size_t i = 0; i < count && result == CUPTI_OK; i++)
		result = libcupti.cuptiEnableCallback(on, subscriber, CUPTI_DOMAIN_RESOURCE,
						      events[i]);
	return result;
}

/* Of graphs and contexts. */
static int enable_resources(uint32_t on)
{
	/* Older versions do not report it: an updated graph keeps what was captured first. */
	if (libcupti.version >= CUPTI_VERSION_NODE_UPDATED)
		libcupti.cuptiEnableCallback(on, subscriber, CUPTI_DOMAIN_RESOURCE,
					     CUPTI_RESOURCE_GRAPHNODE_UPDATED);
	return enable_events(on, resource_events, ARRAY_LENGTH(resource_events));
}

static int enable_calls(const uint32_t *calls, size_t count)
{
	int result = CUPTI_OK;

	for (size_t i = 0; i < count && result == CUPTI_OK; i++)
		result = libcupti.cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER_API,
						      calls[i]);
	return result;
}

/*
 * Enables what is always enabled. A callback of a call stays so until CUPTI is left: CUPTI 13.0
 * counts for each thread the calls that it has seen begin and not end, and reports none to it any
 * more after four (read in its machine code, and seen on an H100). Disabling the callback of a call
 * in flight loses its end.
 */
static int enable_all(void)
{
	int result = enable_resources(1);

	if (result == CUPTI_OK)
		result = enable_calls(driver_calls, ARRAY_LENGTH(driver_calls));
	/* Older versions do not have all of these calls. */
	for (uint32_t call = 0; call < CALL_MAX && result == CUPTI_OK; call++)
		if (graph_calls[call])
			libcupti.cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER_API, call);
	return result;
}

static bool pause_events(void)
{
	if (enable_resources(0) != CUPTI_OK)
		return false;
	atomic_store(&is_paused, true);
	return true;
}

/*
 * Releases the subscription; this disables its callbacks too. A subscription that cannot be
 * released is disabled, and used again by the next start. One that cannot even be disabled is lost:
 * another tool has called cuptiFinalize.
 */
static void unsubscribe(void)
{
	int result = libcupti.cuptiUnsubscribe(subscriber);

	if (result != CUPTI_OK && pause_events()) {
		message("cannot release the CUPTI subscription (cuptiUnsubscribe: error %d); "
			"recording has stopped, but other tools cannot use CUPTI",
			result);
		return;
	}
	if (result != CUPTI_OK)
		note_ended();
	subscriber = NULL;
}

/* Calls that were in flight when the callbacks ended have not left. */
static void reset_gate(void)
{
	for (int kind = 0; kind < CALL_GATE_KINDS; kind++)
		call_gate_reset((enum call_gate_kind)kind);
}

/* Uses the earlier `subscriber` if it is still valid, else a new one. */
static int subscribe(bool may_choose, struct proton_error *err)
{
	int status, result;

	atomic_store(&is_paused, false);
	if (subscriber && enable_all() == CUPTI_OK)
		return PROTON_OK;
	reset_gate();
	status = interface_subscribe(on_callback, may_choose, &subscriber, err);
	if (status != PROTON_OK)
		return status;
	result = enable_all();
	if (result == CUPTI_OK)
		return PROTON_OK;
	unsubscribe();
	return cupti_api_error(result, "cuptiEnableCallback", err);
}

int callbacks_set_memory(bool is_wanted, struct proton_error *err)
{
	return memory_set(subscriber, is_wanted, err);
}

int callbacks_set_modules(bool is_wanted, struct proton_error *err)
{
	int result = enable_events(is_wanted, module_events, ARRAY_LENGTH(module_events));

	/* Older versions do not have all of these calls. */
	if (is_wanted && result == CUPTI_OK)
		for (size_t i = 0; i < ARRAY_LENGTH(module_calls); i++)
			libcupti.cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER_API,
						     module_calls[i]);
	return result == CUPTI_OK ? PROTON_OK : cupti_api_error(result, "cuptiEnableCallback", err);
}

void callbacks_ask_modules(bool is_wanted)
{
	libcupti.cuptiEnableCallback(is_wanted, subscriber, CUPTI_DOMAIN_RESOURCE,
				     CUPTI_RESOURCE_MODULE_PROFILED);
}

int callbacks_start(bool may_choose, struct proton_error *err)
{
	ended_was_noted = false;
	launches_start();
	return subscribe(may_choose, err);
}

bool callbacks_release(void)
{
	if (subscriber)
		unsubscribe();
	return !subscriber;
}

void callbacks_pause(void)
{
	if (subscriber && !pause_events())
		unsubscribe();
}

void callbacks_set_between(bool is_on)
{
	if (is_on)
		atomic_store(&is_between, true);
	launches_stop(); /* launches that are not counted have no record that is waited for */
	atomic_store(&is_between, is_on);
}

void callbacks_forget(void)
{
	subscriber = NULL;
}

void callbacks_stop(void)
{
	launches_stop();
	contexts_clear();
}

void callbacks_check(void)
{
	/* Enabling an enabled callback changes nothing, unless the subscription is lost. */
	if (libcupti.cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER_API, driver_calls[0]) !=
	    CUPTI_OK)
		note_ended();
}
