/*
 * CUPTI API callbacks at each launch call of the driver. The runtime's launch calls end in the
 * driver's, so each launch is seen once.
 *
 * The callback runs on the application's thread inside the launch: it finds the thread's context
 * and makes one store under the correlation ID that the kernel's record will carry.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "backend/cuda/contexts.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/graphs.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/pc_sampling.h"
#include "backend/cuda/tensors.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "record/record.h"
#include "record/thread/correlate.h"

#define SAMPLE_PERIOD 1024u

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
static _Atomic uint64_t launched;
static _Atomic uint64_t cost_ns;
static _Atomic uint64_t clock_cost_ns;
static _Atomic uint32_t last_shared;
static _Atomic bool ended_was_noted;       /* sessions may flush at the same time */
static _Atomic uint32_t first_correlation; /* first ID of this subscription; 0: none yet */

/* The current launch of this thread. */
static _Thread_local struct {
	bool is_wanted; /* some session was active when it began */
	bool made_node; /* it is being captured */
	uint32_t calls; /* number of launches, for sampling their overhead */
} current;

uint64_t callbacks_launched(void)
{
	return atomic_load_explicit(&launched, memory_order_relaxed);
}

uint32_t callbacks_last_shared(void)
{
	return atomic_load_explicit(&last_shared, memory_order_relaxed);
}

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

bool callbacks_is_older(uint32_t correlation_id)
{
	uint32_t first = atomic_load_explicit(&first_correlation, memory_order_relaxed);

	return !first || (int32_t)(correlation_id - first) < 0;
}

static void note_first(uint32_t correlation_id)
{
	uint32_t none = 0;

	if (!atomic_load_explicit(&first_correlation, memory_order_relaxed))
		atomic_compare_exchange_strong(&first_correlation, &none, correlation_id);
}

static bool is_graph_launch(uint32_t call)
{
	return call == CUPTI_CALL_GRAPH_LAUNCH || call == CUPTI_CALL_GRAPH_LAUNCH_PTSZ;
}

/*
 * Launches while all sessions are paused are stored too, without sessions: their records are then
 * known and ignored. The same holds for kernels of Proton itself, including those of another
 * backend.
 */
static void on_launch(uint32_t call, const struct cupti_callback_data *data)
{
	struct correlation correlation = {.where = {.sessions = 0}};

	if (!tensors_are_launching() && !record_is_own_work())
		correlation.where = proton_context_here();
	note_first(data->correlation_id);
	correlation.is_shared = is_graph_launch(call) ||
				call == CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE;
	correlation.is_named = record_is_in_op() && !is_graph_launch(call);
	correlation.launch =
		record_launch_begin(correlation.where, data->correlation_id,
				    is_graph_launch(call) ? LAUNCH_GRAPH : LAUNCH_KERNEL);
	correlate_put(data->correlation_id, correlation);
	current.is_wanted = !correlation.is_shared && !proton_context_is_empty(correlation.where);
	current.made_node = false;
	if (correlation.is_shared)
		atomic_store_explicit(&last_shared, data->correlation_id, memory_order_relaxed);
	if (is_graph_launch(call))
		tensors_relieve();
	contexts_note(data->context);
	if (pc_sampling_runs())
		pcs_modules_on_launch(call, data, correlation.where, correlation.is_named);
}

/*
 * Only now it is known whether records will arrive: none for a launch that failed or was captured,
 * and an unknown number for a shared one.
 */
static void on_launched(uint32_t call, const struct cupti_callback_data *data)
{
	const int *result = data->function_return_value;
	struct correlation unused;

	record_launch_end();
	if (pc_sampling_runs())
		pcs_modules_on_launched(data);
	if (!is_graph_launch(call) && (current.made_node || (result && *result != 0)))
		correlate_take(data->correlation_id, &unused);
	else if (current.is_wanted)
		atomic_fetch_add_explicit(&launched, 1, memory_order_relaxed);
	current.is_wanted = false;
	if (is_graph_launch(call))
		graphs_flush_if_due();
}

/* A memory copy or memset. The driver decides whether it makes no record, one or many. */
static void on_memory_call(uint32_t call, const struct cupti_callback_data *data)
{
	struct correlation correlation = {.is_shared = memory_is_batch(call)};

	if (!record_is_own_work())
		correlation.where = proton_context_here();
	note_first(data->correlation_id);
	correlation.launch =
		record_launch_begin(correlation.where, data->correlation_id, LAUNCH_MEMORY);
	correlate_put(data->correlation_id, correlation);
	current.made_node = false;
	atomic_store_explicit(&last_shared, data->correlation_id, memory_order_relaxed);
	contexts_note(data->context);
}

static void on_memory_called(uint32_t call, const struct cupti_callback_data *data)
{
	const int *result = data->function_return_value;
	struct correlation unused;

	record_launch_end();
	if (current.made_node || (result && *result != 0))
		correlate_take(data->correlation_id, &unused);
}

static void on_work(uint32_t call, const struct cupti_callback_data *data)
{
	bool is_enter = data->site == CUPTI_SITE_ENTER;

	if (memory_is_call(call))
		(is_enter ? on_memory_call : on_memory_called)(call, data);
	else
		(is_enter ? on_launch : on_launched)(call, data);
}

/* The number of calls that the thread's call `number` stands for; 0: it is not timed. */
static inline uint32_t sample_weight(uint32_t number)
{
	if (number > SAMPLE_PERIOD)
		return number % SAMPLE_PERIOD ? 0 : SAMPLE_PERIOD;
	return number & (number - 1) ? 0 : number < 2 ? number : number / 2;
}

/*
 * Reading the clock costs as much as the callback. So every SAMPLE_PERIOD-th call of a thread is
 * timed and stands for those since the previous one. At the beginning the distances double, which
 * gives short runs an estimate too.
 */
static void on_work_sampled(uint32_t call, const struct cupti_callback_data *data)
{
	uint32_t weight;
	uint64_t start_ns;
	uint64_t spent_ns;
	uint64_t clock_ns;

	current.calls += data->site == CUPTI_SITE_ENTER;
	weight = sample_weight(current.calls);
	if (!weight) {
		on_work(call, data);
		return;
	}
	start_ns = clock_monotonic_ns();
	on_work(call, data);
	spent_ns = clock_monotonic_ns() - start_ns;
	clock_ns = atomic_load_explicit(&clock_cost_ns, memory_order_relaxed);
	spent_ns -= spent_ns < clock_ns ? spent_ns : clock_ns;
	atomic_fetch_add_explicit(&cost_ns, spent_ns * weight, memory_order_relaxed);
}

/* The difference of two consecutive clock reads. */
static uint64_t measure_clock(void)
{
	uint64_t min = UINT64_MAX;

	for (int i = 0; i < 64; i++) {
		uint64_t start_ns = clock_monotonic_ns();
		uint64_t spent_ns = clock_monotonic_ns() - start_ns;

		min = spent_ns < min ? spent_ns : min;
	}
	return min;
}

uint64_t callbacks_cost_ns(void)
{
	return atomic_load_explicit(&cost_ns, memory_order_relaxed);
}

/* A call that began a capture and succeeded, or that ended one. */
static void on_capture_call(const struct cupti_callback_data *data, bool is_begin)
{
	const int *result = data->function_return_value;

	bool is_good = !result || *result == 0;

	if (data->site != CUPTI_SITE_EXIT || (is_begin && !is_good))
		return;
	if (is_begin)
		graphs_begin_capture();
	else if (is_good)
		graphs_end_capture();
	captured_set(is_begin);
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
#define M(name, number) case number:
#include "backend/cuda/pcs_module_calls.def"
#undef M
		pcs_modules_on_call(call, data);
		break;
	default: /* no other calls are enabled */
		on_work_sampled(call, data);
		break;
	}
}

static void on_resource(uint32_t event, const struct cupti_resource_data *resource)
{
	switch (event) {
	case CUPTI_RESOURCE_CONTEXT_CREATED:
		pc_sampling_on_context(resource->context, false);
		break;
	case CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING:
		contexts_forget(resource->context);
		pc_sampling_on_context_destroy(resource->context);
		break;
	case CUPTI_RESOURCE_MODULE_LOADED:
	case CUPTI_RESOURCE_MODULE_UNLOAD_STARTING:
	case CUPTI_RESOURCE_MODULE_PROFILED:
		pcs_modules_on_event(event, resource->resource_descriptor);
		break;
	case CUPTI_RESOURCE_GRAPHNODE_CREATED:
		current.made_node = true;
		graphs_on_resource(event, resource->resource_descriptor);
		break;
	default:
		graphs_on_resource(event, resource->resource_descriptor);
		break;
	}
}

static void on_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
	if (cuda_is_orphaned())
		return;
	if (domain == CUPTI_DOMAIN_DRIVER_API) {
		on_driver_call(call, data);
	} else if (domain == CUPTI_DOMAIN_RESOURCE) {
		on_resource(call, data);
	}
}

/* Enables the callbacks of the subscription, or disables them. */
static int enable(uint32_t on)
{
	int result = CUPTI_OK;

	for (size_t i = 0; i < ARRAY_LENGTH(resource_events) && result == CUPTI_OK; i++)
		result = libcupti.cuptiEnableCallback(on, subscriber, CUPTI_DOMAIN_RESOURCE,
						      resource_events[i]);
	for (size_t i = 0; i < ARRAY_LENGTH(driver_calls) && result == CUPTI_OK; i++)
		result = libcupti.cuptiEnableCallback(on, subscriber, CUPTI_DOMAIN_DRIVER_API,
						      driver_calls[i]);
	return result;
}

/*
 * Releases the subscription; this disables its callbacks too. A subscription that cannot be
 * released is disabled, and used again by the next start. One that cannot even be disabled is lost:
 * another tool has called cuptiFinalize.
 */
static void unsubscribe(void)
{
	int result = libcupti.cuptiUnsubscribe(subscriber);

	if (result != CUPTI_OK && enable(0) == CUPTI_OK) {
		message("cannot release the CUPTI subscription (cuptiUnsubscribe: error %d); "
			"recording has stopped, but other tools cannot use CUPTI",
			result);
		return;
	}
	if (result != CUPTI_OK)
		note_ended();
	subscriber = NULL;
}

/* Uses the earlier `subscriber` if it is still valid, else a new one. */
static int subscribe(struct proton_error *err)
{
	int result;

	if (subscriber && enable(1) == CUPTI_OK)
		return PROTON_OK; /* the event below is still enabled */
	subscriber = NULL;
	result = libcupti.cuptiSubscribe(&subscriber, on_callback, NULL);
	if (result != CUPTI_OK) {
		subscriber = NULL;
		return cupti_api_error(result, "cuptiSubscribe", err);
	}
	result = enable(1);
	/* Older versions do not report it: an updated graph keeps what was captured first. */
	if (result == CUPTI_OK && libcupti.version >= CUPTI_VERSION_NODE_UPDATED)
		libcupti.cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE,
					     CUPTI_RESOURCE_GRAPHNODE_UPDATED);
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
	int result = CUPTI_OK;

	for (size_t i = 0; i < ARRAY_LENGTH(module_events) && result == CUPTI_OK; i++)
		result = libcupti.cuptiEnableCallback(is_wanted, subscriber, CUPTI_DOMAIN_RESOURCE,
						      module_events[i]);
	/* Older versions do not have all of these calls. */
	for (size_t i = 0; i < ARRAY_LENGTH(module_calls) && result == CUPTI_OK; i++)
		libcupti.cuptiEnableCallback(is_wanted, subscriber, CUPTI_DOMAIN_DRIVER_API,
					     module_calls[i]);
	return result == CUPTI_OK ? PROTON_OK : cupti_api_error(result, "cuptiEnableCallback", err);
}

void callbacks_ask_modules(bool is_wanted)
{
	libcupti.cuptiEnableCallback(is_wanted, subscriber, CUPTI_DOMAIN_RESOURCE,
				     CUPTI_RESOURCE_MODULE_PROFILED);
}

int callbacks_start(struct proton_error *err)
{
	ended_was_noted = false;
	clock_cost_ns = measure_clock();
	atomic_store(&cost_ns, 0);
	return subscribe(err);
}

void callbacks_stop(void)
{
	unsubscribe();
	atomic_store(&launched, 0);
	atomic_store(&last_shared, 0);
	atomic_store(&first_correlation, 0);
	contexts_clear();
}

void callbacks_check(void)
{
	/* Enabling an enabled callback changes nothing, unless the subscription is lost. */
	if (libcupti.cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER_API, driver_calls[0]) !=
	    CUPTI_OK)
		note_ended();
}
