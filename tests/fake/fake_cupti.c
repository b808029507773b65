/*
 * A libcupti that a test plays: it is loaded by the CUDA backend as the real one is. The test
 * launches kernels with fake_launch() and decides what their records say and when they come.
 *
 * Environment: FAKE_CUPTI_VERSION, what cuptiGetVersion gives (default 130000); FAKE_CUPTI_FAIL,
 * "name=code": that entry point fails with the code; FAKE_CUPTI_LATE_MS: buffers are handed over
 * that long after the flush returned.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake/fake_cupti.h"

#define EXPORT __attribute__((visibility("default")))
#define RECORD_BYTES 216 /* as CUPTI 13.0's */
#define QUEUE_MAX (1u << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cupti_callback_fn callback;
static cupti_buffer_requested_fn requested;
static cupti_buffer_completed_fn completed;
static struct cupti_kernel *queue;
static size_t queued;
static size_t dropped;
static bool is_enabled;
static bool is_call_enabled[1024];
static _Atomic uint32_t next_correlation = 1;
static _Atomic int handing_over;

static bool fails(const char *name, int *code)
{
	const char *wanted = getenv("FAKE_CUPTI_FAIL");
	size_t length = strlen(name);

	if (!wanted || strncmp(wanted, name, length) != 0 || wanted[length] != '=')
		return false;
	*code = atoi(wanted + length + 1);
	return true;
}

#define FAIL_IF_TOLD(name)                                                                         \
	do {                                                                                       \
		int code;                                                                          \
                                                                                                   \
		if (fails(#name, &code))                                                           \
			return code;                                                               \
	} while (0)

EXPORT int cuptiGetVersion(uint32_t *version)
{
	const char *told = getenv("FAKE_CUPTI_VERSION");

	FAIL_IF_TOLD(cuptiGetVersion);
	*version = told ? (uint32_t)atoi(told) : 130000;
	return CUPTI_OK;
}

EXPORT int cuptiGetResultString(int result, const char **text)
{
	static _Thread_local char buffer[32];

	snprintf(buffer, sizeof(buffer), "FAKE_ERROR_%d", result);
	*text = buffer;
	return CUPTI_OK;
}

EXPORT int cuptiSubscribe(void **subscriber, cupti_callback_fn on_call, void *user)
{
	(void)user;
	FAIL_IF_TOLD(cuptiSubscribe);
	if (callback)
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	callback = on_call;
	*subscriber = &callback;
	return CUPTI_OK;
}

EXPORT int cuptiUnsubscribe(void *subscriber)
{
	FAIL_IF_TOLD(cuptiUnsubscribe);
	if (subscriber != (void *)&callback || !callback)
		return 1;
	callback = NULL;
	memset(is_call_enabled, 0, sizeof(is_call_enabled));
	return CUPTI_OK;
}

EXPORT int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t call)
{
	(void)subscriber;
	FAIL_IF_TOLD(cuptiEnableCallback);
	if (domain == CUPTI_DOMAIN_DRIVER_API && call < 1024)
		is_call_enabled[call] = enable;
	return CUPTI_OK;
}

EXPORT int cuptiActivityEnable(int kind)
{
	FAIL_IF_TOLD(cuptiActivityEnable);
	if (kind == CUPTI_KIND_CONCURRENT_KERNEL)
		is_enabled = true;
	return CUPTI_OK;
}

EXPORT int cuptiActivityDisable(int kind)
{
	FAIL_IF_TOLD(cuptiActivityDisable);
	if (kind == CUPTI_KIND_CONCURRENT_KERNEL)
		is_enabled = false;
	return CUPTI_OK;
}

EXPORT int cuptiActivityRegisterCallbacks(cupti_buffer_requested_fn on_requested,
					  cupti_buffer_completed_fn on_completed)
{
	FAIL_IF_TOLD(cuptiActivityRegisterCallbacks);
	requested = on_requested;
	completed = on_completed;
	return CUPTI_OK;
}

EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes,
				      struct cupti_activity **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + RECORD_BYTES : buffer;

	FAIL_IF_TOLD(cuptiActivityGetNextRecord);
	if (next + RECORD_BYTES > buffer + valid_bytes)
		return CUPTI_E_MAX_LIMIT_REACHED;
	*record = (void *)next;
	return CUPTI_OK;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
	(void)context;
	(void)stream;
	FAIL_IF_TOLD(cuptiActivityGetNumDroppedRecords);
	pthread_mutex_lock(&lock);
	*count = dropped;
	dropped = 0;
	pthread_mutex_unlock(&lock);
	return CUPTI_OK;
}

EXPORT int cuptiActivitySetAttribute(int attribute, size_t *value_bytes, void *value)
{
	(void)attribute;
	(void)value_bytes;
	(void)value;
	FAIL_IF_TOLD(cuptiActivitySetAttribute);
	return CUPTI_OK;
}

/* One buffer's worth of the queue, as CUPTI's own thread hands it over. */
static bool hand_over_one(void)
{
	uint8_t *buffer = NULL;
	size_t bytes = 0;
	size_t max_records = 0;
	size_t used = 0;

	if (!queued || !requested)
		return false;
	requested(&buffer, &bytes, &max_records);
	if (!buffer) {
		pthread_mutex_lock(&lock);
		dropped += queued;
		queued = 0;
		pthread_mutex_unlock(&lock);
		return false;
	}
	pthread_mutex_lock(&lock);
	while (queued && used + RECORD_BYTES <= bytes) {
		memcpy(buffer + used, &queue[--queued], sizeof(*queue));
		used += RECORD_BYTES;
	}
	pthread_mutex_unlock(&lock);
	completed(NULL, 0, buffer, bytes, used);
	return true;
}

static void *hand_over(void *unused)
{
	const char *late = getenv("FAKE_CUPTI_LATE_MS");

	(void)unused;
	if (late)
		usleep((useconds_t)atoi(late) * 1000);
	while (hand_over_one())
		;
	atomic_store(&handing_over, 0);
	return NULL;
}

EXPORT int cuptiActivityFlushAll(uint32_t flags)
{
	pthread_t thread;

	FAIL_IF_TOLD(cuptiActivityFlushAll);
	if (atomic_exchange(&handing_over, 1)) /* it is being done */
		return CUPTI_OK;
	if (pthread_create(&thread, NULL, hand_over, NULL) != 0) {
		atomic_store(&handing_over, 0);
		return 1;
	}
	if (flags & CUPTI_FLUSH_FORCED || !getenv("FAKE_CUPTI_LATE_MS"))
		pthread_join(thread, NULL);
	else
		pthread_detach(thread); /* a flush is no fence */
	return CUPTI_OK;
}

EXPORT uint32_t fake_launch(const struct fake_launch *launch)
{
	struct cupti_callback_data data = {
		.site = CUPTI_SITE_ENTER,
		.symbol_name = launch->name,
		.context = launch->context,
		.correlation_id = atomic_fetch_add(&next_correlation, 1),
	};
	bool is_told = callback && is_call_enabled[launch->call];

	if (is_told && !launch->is_unseen)
		callback(NULL, CUPTI_DOMAIN_DRIVER_API, launch->call, &data);
	pthread_mutex_lock(&lock);
	if (!queue)
		queue = calloc(QUEUE_MAX, sizeof(*queue));
	for (uint32_t i = 0; is_enabled && queue && i < launch->records && queued < QUEUE_MAX; i++)
		queue[queued++] = (struct cupti_kernel){
			.kind = CUPTI_KIND_CONCURRENT_KERNEL,
			.start_ns = launch->start_ns,
			.end_ns = launch->end_ns,
			.device_id = launch->device,
			.correlation_id = data.correlation_id,
			.name = launch->name,
			.graph_node_id = launch->node_id,
		};
	pthread_mutex_unlock(&lock);
	data.site = CUPTI_SITE_EXIT;
	if (is_told && !launch->is_unseen)
		callback(NULL, CUPTI_DOMAIN_DRIVER_API, launch->call, &data);
	return data.correlation_id;
}

EXPORT int cuptiGetGraphNodeId(void *node, uint64_t *id)
{
	FAIL_IF_TOLD(cuptiGetGraphNodeId);
	*id = (uint64_t)(uintptr_t)node;
	return CUPTI_OK;
}

EXPORT int cuptiGetGraphId(void *graph, uint32_t *id)
{
	FAIL_IF_TOLD(cuptiGetGraphId);
	*id = (uint32_t)(uintptr_t)graph;
	return CUPTI_OK;
}

EXPORT int cuptiGetGraphExecId(void *graph_exec, uint32_t *id)
{
	return cuptiGetGraphId(graph_exec, id);
}

EXPORT void fake_call(uint32_t call, int result)
{
	struct cupti_callback_data data = {.function_return_value = &result};

	for (uint32_t site = CUPTI_SITE_ENTER; site <= CUPTI_SITE_EXIT; site++) {
		data.site = site;
		if (callback && is_call_enabled[call])
			callback(NULL, CUPTI_DOMAIN_DRIVER_API, call, &data);
	}
}

EXPORT void fake_graph_event(uint32_t event, uint64_t node_id, uint64_t original_id, int node_type)
{
	struct cupti_graph_data graph = {
		.graph = (void *)(uintptr_t)(node_id >> 32),
		.node = (void *)(uintptr_t)node_id,
		.original_node = (void *)(uintptr_t)original_id,
		.node_type = node_type,
		.graph_exec = (void *)(uintptr_t)(node_id >> 32),
	};
	struct cupti_resource_data resource = {.resource_descriptor = &graph};

	if (callback)
		callback(NULL, CUPTI_DOMAIN_RESOURCE, event, &resource);
}

EXPORT void fake_skip_correlations(uint32_t count)
{
	atomic_fetch_add(&next_correlation, count);
}

EXPORT bool fake_is_idle(void)
{
	return !callback && !is_enabled;
}

EXPORT void fake_drop(size_t count)
{
	pthread_mutex_lock(&lock);
	dropped += count;
	pthread_mutex_unlock(&lock);
}
