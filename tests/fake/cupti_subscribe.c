/*
 * The only subscriber of the fake libcupti, its callbacks, and other tools in the process that
 * want to subscribe.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake/callback_time.h"
#include "fake/cupti_state.h"
#include "fake/entries.h"

#define DOMAINS 4
#define CALLS 1024

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* protects the following variables */
static cupti_callback_fn callback;
static void *callback_user;
static bool is_enabled[DOMAINS][CALLS];
static char other_name[64]; /* name of the other tool that is subscribed */
static uintptr_t handle = 0x5ab0;

static _Atomic pid_t owner; /* the first process that used this library */
static _Atomic uint32_t next_correlation = 1;
static _Atomic(void (*)(void)) hook;

void subscribe_use(const char *call)
{
	pid_t none = 0;

	if (atomic_compare_exchange_strong(&owner, &none, getpid()) || none == getpid())
		return;
	fprintf(stderr, "fake: %s in a child forked from a process that used CUPTI\n", call);
	abort();
}

int fake_cuptiGetResultString(int result, const char **text)
{
	static _Thread_local char buffer[32];

	snprintf(buffer, sizeof(buffer), "FAKE_ERROR_%d", result);
	*text = buffer;
	return CUPTI_OK;
}

int fake_cuptiSubscribe(void **subscriber, cupti_callback_fn on_call, void *user)
{
	int result = CUPTI_E_MULTIPLE_SUBSCRIBERS;

	subscribe_use("cuptiSubscribe");
	pthread_rwlock_wrlock(&lock);
	if (!callback && !*other_name) {
		callback = on_call;
		callback_user = user;
		*subscriber = (void *)++handle;
		result = CUPTI_OK;
	}
	pthread_rwlock_unlock(&lock);
	return result;
}

int fake_cuptiSubscribe_v2(void **subscriber, cupti_callback_fn on_call, void *user,
			   struct cupti_subscriber_params *params)
{
	int result = 11; /* CUPTI_ERROR_API_NOT_IMPLEMENTED */

	if (version_code() >= 130000)
		result = fake_cuptiSubscribe(subscriber, on_call, user);
	if (result == CUPTI_E_MULTIPLE_SUBSCRIBERS && params && params->other_name) {
		pthread_rwlock_rdlock(&lock);
		snprintf(params->other_name, params->other_name_bytes, "CUPTI for %s", other_name);
		pthread_rwlock_unlock(&lock);
	}
	return result;
}

int fake_cuptiUnsubscribe(void *subscriber)
{
	int result = 1; /* CUPTI_ERROR_INVALID_PARAMETER */

	subscribe_use("cuptiUnsubscribe");
	pthread_rwlock_wrlock(&lock);
	if (callback && (uintptr_t)subscriber == handle) {
		callback = NULL;
		memset(is_enabled, 0, sizeof(is_enabled));
		result = CUPTI_OK;
	}
	pthread_rwlock_unlock(&lock);
	return result;
}

int fake_cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t call)
{
	int result = 1;

	subscribe_use("cuptiEnableCallback");
	pthread_rwlock_wrlock(&lock);
	if (callback && (uintptr_t)subscriber == handle && domain < DOMAINS && call < CALLS) {
		is_enabled[domain][call] = enable;
		result = CUPTI_OK;
	}
	pthread_rwlock_unlock(&lock);
	return result;
}

bool subscribe_wants(uint32_t domain, uint32_t call)
{
	bool wants;

	pthread_rwlock_rdlock(&lock);
	wants = callback && is_enabled[domain][call];
	pthread_rwlock_unlock(&lock);
	return wants;
}

/* The lock is not held during the callback, so it may come while its subscriber unsubscribes. */
void subscribe_notify(uint32_t domain, uint32_t call, const void *data)
{
	void (*first)(void) = atomic_load(&hook);
	cupti_callback_fn notify = NULL;
	void *user = NULL;

	pthread_rwlock_rdlock(&lock);
	if (callback && is_enabled[domain][call]) {
		notify = callback;
		user = callback_user;
	}
	pthread_rwlock_unlock(&lock);
	if (notify && first)
		first();
	if (notify) {
		uint64_t start_ns = callback_time_begin();

		notify(user, domain, call, data);
		callback_time_end(start_ns);
	}
}

uint32_t subscribe_next_correlation(void)
{
	return atomic_fetch_add(&next_correlation, 1);
}

bool subscribe_is_idle(void)
{
	bool idle;

	pthread_rwlock_rdlock(&lock);
	idle = !callback;
	pthread_rwlock_unlock(&lock);
	return idle;
}

void subscribe_reset(void)
{
	pthread_rwlock_wrlock(&lock);
	callback = NULL;
	*other_name = '\0';
	memset(is_enabled, 0, sizeof(is_enabled));
	pthread_rwlock_unlock(&lock);
}

FAKE_EXPORT void fake_set_hook(void (*new_hook)(void))
{
	atomic_store(&hook, new_hook);
}

FAKE_EXPORT void fake_skip_correlations(uint32_t count)
{
	atomic_fetch_add(&next_correlation, count);
}

FAKE_EXPORT void fake_context_create(void *context)
{
	struct cupti_resource_data data = {.context = context};

	subscribe_notify(CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_CONTEXT_CREATED, &data);
}

FAKE_EXPORT void fake_context_destroy(void *context)
{
	struct cupti_resource_data data = {.context = context};

	subscribe_notify(CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING, &data);
	pc_sampling_context_destroyed(context);
}

FAKE_EXPORT void fake_call(uint32_t call, int result)
{
	struct cupti_callback_data data = {.function_return_value = &result};

	for (uint32_t site = CUPTI_SITE_ENTER; site <= CUPTI_SITE_EXIT; site++) {
		data.site = site;
		subscribe_notify(CUPTI_DOMAIN_DRIVER_API, call, &data);
	}
}

static void add_records(const struct fake_launch *launch, uint32_t correlation)
{
	struct cupti_kernel kernel = {
		.kind = CUPTI_KIND_CONCURRENT_KERNEL,
		.start_ns = launch->start_ns,
		.end_ns = launch->end_ns,
		.device_id = launch->device,
		.context_id = (uint32_t)(uintptr_t)launch->context,
		.stream_id = launch->stream,
		.correlation_id = correlation,
		.name = launch->name,
		.graph_node_id = launch->node_id,
		.registers_per_thread = (uint16_t)launch->config.registers_per_thread,
		.static_shared_bytes = (int32_t)launch->config.static_shared_bytes,
		.dynamic_shared_bytes = (int32_t)launch->config.dynamic_shared_bytes,
	};

	for (int i = 0; i < 3; i++) {
		kernel.grid[i] = (int32_t)launch->config.grid[i];
		kernel.block[i] = (int32_t)launch->config.block[i];
	}
	if (!launch->records || !records_are_enabled(CUPTI_KIND_CONCURRENT_KERNEL))
		return;
	records_prepare();
	for (uint32_t i = 0; i < launch->records; i++)
		records_add(&kernel, sizeof(kernel));
}

FAKE_EXPORT uint32_t fake_launch(const struct fake_launch *launch)
{
	int result = launch->result;
	struct cupti_callback_data data = {
		.site = CUPTI_SITE_ENTER,
		.function_return_value = &result,
		.symbol_name = launch->name,
		.context = launch->context,
		.correlation_id = subscribe_next_correlation(),
	};
	const void *params[] = {launch->function, NULL, NULL};

	if (launch->function)
		data.function_params = params;
	if (!launch->is_unseen)
		subscribe_notify(CUPTI_DOMAIN_DRIVER_API, launch->call, &data);
	pc_sampling_busy(true);
	if (launch->function)
		pc_sampling_launch(launch->function);
	if (launch->captures)
		fake_graph_event(CUPTI_RESOURCE_GRAPHNODE_CREATED, launch->captures, 0,
				 CUDA_GRAPH_NODE_KERNEL);
	add_records(launch, data.correlation_id);
	data.site = CUPTI_SITE_EXIT;
	pc_sampling_busy(false);
	if (!launch->is_unseen)
		subscribe_notify(CUPTI_DOMAIN_DRIVER_API, launch->call, &data);
	return data.correlation_id;
}

/* ------------------------------------------------------------------ other tools */

FAKE_EXPORT bool fake_other_subscribe(const char *name)
{
	bool done;

	pthread_rwlock_wrlock(&lock);
	done = !callback && !*other_name;
	if (done)
		snprintf(other_name, sizeof(other_name), "%s", name);
	pthread_rwlock_unlock(&lock);
	return done;
}

FAKE_EXPORT void fake_other_unsubscribe(void)
{
	pthread_rwlock_wrlock(&lock);
	*other_name = '\0';
	pthread_rwlock_unlock(&lock);
}

FAKE_EXPORT void fake_other_finalize(void)
{
	subscribe_reset();
	records_reset();
}

int fake_cuptiFinalize(void)
{
	subscribe_use("cuptiFinalize");
	pc_sampling_reset();
	fake_other_finalize();
	return CUPTI_OK;
}

FAKE_EXPORT bool fake_is_idle(void)
{
	return subscribe_is_idle() && records_are_idle();
}
