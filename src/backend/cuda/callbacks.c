/*
 * Launches as they happen: a CUPTI callback on each launch call of the driver. The runtime's launch
 * calls end in the driver's, so each launch is seen once, whoever makes it.
 *
 * The callback runs on the application's thread inside its launch: it finds the thread's context
 * and makes one store under the correlation id that the kernel's record will carry.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/graphs.h"
#include "base/array.h"
#include "record/correlate.h"
#include "record/record.h"

#define CONTEXT_MAX 64u

static const uint32_t launch_calls[] = {
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
};

static const uint32_t capture_calls[] = {
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
	CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING, CUPTI_RESOURCE_GRAPH_DESTROY_STARTING,
	CUPTI_RESOURCE_GRAPHNODE_CREATED,        CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING,
	CUPTI_RESOURCE_GRAPHNODE_CLONED,
};

static const struct cupti_api *cupti;
static void *subscriber;
static _Atomic uint64_t launched;
static _Atomic bool saw_graphs;
static _Atomic(void *) contexts[CONTEXT_MAX];   /* that launched something; NULL = free */
static _Atomic uint32_t contexts_forgotten = 1; /* changes whenever one leaves the list */

/* The context this thread noted last; good while nothing has left the list since. */
static _Thread_local struct {
	void *context;
	uint32_t forgotten;
} noted;

uint64_t callbacks_launched(void)
{
	return atomic_load_explicit(&launched, memory_order_relaxed);
}

bool callbacks_saw_graphs(void)
{
	return atomic_load_explicit(&saw_graphs, memory_order_relaxed);
}

static void note_context(void *context)
{
	uint32_t forgotten = atomic_load_explicit(&contexts_forgotten, memory_order_relaxed);

	if (!context || (context == noted.context && forgotten == noted.forgotten))
		return;
	noted.context = context;
	noted.forgotten = forgotten;
	for (size_t i = 0; i < CONTEXT_MAX; i++) {
		void *expected = NULL;

		if (atomic_compare_exchange_strong(&contexts[i], &expected, context) ||
		    expected == context)
			return;
	}
	/* More contexts than anybody has: the rest waits for the program's own synchronisation. */
}

static void forget_context(const void *context)
{
	for (size_t i = 0; i < CONTEXT_MAX; i++)
		if (atomic_load(&contexts[i]) == context)
			atomic_store(&contexts[i], NULL);
	atomic_fetch_add(&contexts_forgotten, 1);
}

static void on_launch(const struct cupti_callback_data *data, bool is_graph)
{
	struct correlation correlation = {.where = proton_context_here(), .is_shared = is_graph};

	if (proton_context_is_empty(correlation.where))
		return;
	correlation.is_named = record_is_in_op() && !is_graph;
	correlate_put(data->correlation_id, correlation);
	if (is_graph)
		atomic_store_explicit(&saw_graphs, true, memory_order_relaxed);
	else if (!captured_is_on()) /* what is captured has no record of its own */
		atomic_fetch_add_explicit(&launched, 1, memory_order_relaxed);
	note_context(data->context);
}

/* A call that began a capture and succeeded, or ended one. */
static void on_capture_call(const struct cupti_callback_data *data, bool is_begin)
{
	const int *result = data->function_return_value;

	if (data->site == CUPTI_SITE_EXIT && (!is_begin || !result || *result == 0))
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
	default: /* no other calls are enabled */
		if (data->site == CUPTI_SITE_ENTER)
			on_launch(data, call == CUPTI_CALL_GRAPH_LAUNCH ||
						call == CUPTI_CALL_GRAPH_LAUNCH_PTSZ);
		break;
	}
}

static void on_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
	(void)user;
	if (domain == CUPTI_DOMAIN_DRIVER_API) {
		on_driver_call(call, data);
	} else if (domain == CUPTI_DOMAIN_RESOURCE) {
		const struct cupti_resource_data *resource = data;

		if (call == CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING)
			forget_context(resource->context);
		else
			graphs_on_resource(cupti, call, resource->resource_descriptor);
	}
}

int callbacks_start(const struct cupti_api *api, struct proton_error *err)
{
	int result = api->cuptiSubscribe(&subscriber, on_callback, NULL);

	if (result != CUPTI_OK)
		return cupti_error(api, result, "cuptiSubscribe", err);
	cupti = api;
	for (size_t i = 0; i < ARRAY_LENGTH(resource_events) && result == CUPTI_OK; i++)
		result = api->cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE,
						  resource_events[i]);
	for (size_t i = 0; i < ARRAY_LENGTH(capture_calls) && result == CUPTI_OK; i++)
		result = api->cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER_API,
						  capture_calls[i]);
	for (size_t i = 0; i < ARRAY_LENGTH(launch_calls) && result == CUPTI_OK; i++)
		result = api->cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER_API,
						  launch_calls[i]);
	if (result != CUPTI_OK) {
		callbacks_stop(api);
		return cupti_error(api, result, "cuptiEnableCallback", err);
	}
	return PROTON_OK;
}

void callbacks_stop(const struct cupti_api *api)
{
	/* This disables too. No cuptiFinalize: after it CUPTI delivers nothing to anybody. */
	api->cuptiUnsubscribe(subscriber);
	subscriber = NULL;
	atomic_store(&launched, 0);
	atomic_store(&saw_graphs, false);
	for (size_t i = 0; i < CONTEXT_MAX; i++)
		atomic_store(&contexts[i], NULL);
	atomic_fetch_add(&contexts_forgotten, 1);
}

void callbacks_synchronize(const struct cupti_api *api)
{
	for (size_t i = 0; i < CONTEXT_MAX; i++) {
		void *context = atomic_load(&contexts[i]);
		void *popped;

		/* A context that captures a graph refuses; what it captures has not run. */
		if (!context || api->cuCtxPushCurrent_v2(context) != 0)
			continue;
		api->cuCtxSynchronize();
		api->cuCtxPopCurrent_v2(&popped);
	}
}
