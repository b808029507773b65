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

static void *subscriber;
static _Atomic uint64_t launched;
static _Atomic(void *) contexts[CONTEXT_MAX]; /* that launched something; NULL = free */
static _Thread_local void *last_context;      /* the one this thread noted last */

uint64_t callbacks_launched(void)
{
	return atomic_load_explicit(&launched, memory_order_relaxed);
}

static void note_context(void *context)
{
	last_context = context;
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
}

static void on_launch(const struct cupti_callback_data *data, bool is_graph)
{
	struct correlation correlation = {.where = proton_context_here(), .is_shared = is_graph};

	if (proton_context_is_empty(correlation.where))
		return;
	correlation.is_named = record_is_in_op() && !is_graph;
	correlate_put(data->correlation_id, correlation);
	if (!is_graph)
		atomic_fetch_add_explicit(&launched, 1, memory_order_relaxed);
	if (data->context != last_context && data->context)
		note_context(data->context);
}

static void on_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
	(void)user;
	if (domain == CUPTI_DOMAIN_DRIVER_API) {
		const struct cupti_callback_data *api_call = data;

		if (api_call->site == CUPTI_SITE_ENTER)
			on_launch(api_call, call == CUPTI_CALL_GRAPH_LAUNCH ||
						    call == CUPTI_CALL_GRAPH_LAUNCH_PTSZ);
	} else if (domain == CUPTI_DOMAIN_RESOURCE) {
		forget_context(((const struct cupti_resource_data *)data)->context);
	}
}

int callbacks_start(const struct cupti_api *api, struct proton_error *err)
{
	int result = api->cuptiSubscribe(&subscriber, on_callback, NULL);

	if (result != CUPTI_OK)
		return cupti_error(api, result, "cuptiSubscribe", err);
	result = api->cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE,
					  CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING);
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
	for (size_t i = 0; i < CONTEXT_MAX; i++)
		atomic_store(&contexts[i], NULL);
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
