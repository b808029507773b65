/*
 * The subscribers of the fake libcupti, their callbacks, and other tools in the process that want
 * to subscribe. The rules of the second interface are those of NVIDIA's documents.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake/cupti_state.h"
#include "fake/entries.h"

#define DOMAINS 4
#define CALLS 1024
#define DEPTH_MAX 3u

/* Number 0 uses the first interface, which excludes all others. */
struct subscriber {
	cupti_callback_fn callback; /* NULL: free */
	void *user;
	uintptr_t handle;
	bool is_enabled[DOMAINS][CALLS];
	char name[64];
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* protects the following variables */
static struct subscriber subscribers[SUBSCRIBERS];
static char other_name[64]; /* name of another tool that is subscribed to the first interface */
static uintptr_t last_handle = 0x5ab0;
static bool second_was_used; /* until cuptiFinalize() */
static bool allows_several;

static _Atomic pid_t owner; /* the first process that used this library */
static _Atomic uint32_t next_correlation = 1;
static _Atomic(void (*)(void)) hook;
static _Atomic uint32_t finalized; /* times */

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

static _Atomic uint32_t changing; /* threads in calls that take CUPTI's and the driver's locks */
static _Thread_local uint32_t changing_here;

void subscribe_change(bool is_begin)
{
	atomic_fetch_add(&changing, is_begin ? 1 : UINT32_MAX);
	changing_here += is_begin ? 1 : UINT32_MAX;
}

void subscribe_exclude(const char *call)
{
	usleep(100); /* a thread that begins such a call meets it */
	if (atomic_load(&changing) == changing_here)
		return;
	fprintf(stderr, "fake: %s while another thread changes graphs, modules or contexts\n",
		call);
	abort();
}

static _Atomic bool is_attached; /* since the first call of CUPTI, until cuptiFinalize() */

/* The number of subscribers. The lock is held. */
static uint32_t count_subscribers(void)
{
	uint32_t count = *other_name != '\0';

	for (int i = 0; i < SUBSCRIBERS; i++)
		count += subscribers[i].callback != NULL;
	return count;
}

static void *add_subscriber(int at, cupti_callback_fn on_call, void *user, const char *name)
{
	subscribers[at].callback = on_call;
	subscribers[at].user = user;
	subscribers[at].handle = ++last_handle;
	snprintf(subscribers[at].name, sizeof(subscribers[at].name), "CUPTI for %s",
		 name ? name : "");
	return (void *)last_handle;
}

int subscribe_index(void *handle)
{
	int found = -1;

	pthread_rwlock_rdlock(&lock);
	for (int i = 0; i < SUBSCRIBERS; i++)
		if (subscribers[i].callback && subscribers[i].handle == (uintptr_t)handle)
			found = i;
	pthread_rwlock_unlock(&lock);
	return found;
}

bool subscribe_is_detached(void)
{
	return !atomic_load(&is_attached);
}

int fake_cuptiSubscribe(void **subscriber, cupti_callback_fn on_call, void *user)
{
	int result = CUPTI_E_MULTIPLE_SUBSCRIBERS;

	subscribe_use("cuptiSubscribe");
	if (graphs_are_lost())
		return CUPTI_E_NOT_INITIALIZED;
	if (atomic_load(&is_attached))
		subscribe_exclude("cuptiSubscribe");
	atomic_store(&is_attached, true);
	pthread_rwlock_wrlock(&lock);
	if (!count_subscribers() && !second_was_used) {
		*subscriber = add_subscriber(0, on_call, user, "");
		result = CUPTI_OK;
	}
	pthread_rwlock_unlock(&lock);
	return result;
}

/* Before 13.3 there is one subscriber, whichever call it used. */
static int subscribe_old(void **subscriber, cupti_callback_fn on_call, void *user,
			 const struct cupti_subscriber_params *params)
{
	int result;

	if (params && params->size > offsetof(struct cupti_subscriber_params, allows_several))
		return 1; /* CUPTI_ERROR_INVALID_PARAMETER */
	result = fake_cuptiSubscribe(subscriber, on_call, user);
	if (result == CUPTI_E_MULTIPLE_SUBSCRIBERS && params && params->other_name) {
		pthread_rwlock_rdlock(&lock);
		snprintf(params->other_name, params->other_name_bytes, "CUPTI for %s", other_name);
		pthread_rwlock_unlock(&lock);
	}
	return result;
}

/* The name of the first subscriber. The lock is held. */
static void name_first(struct cupti_subscriber_params *params)
{
	if (!params->other_name)
		return;
	if (*other_name)
		snprintf(params->other_name, params->other_name_bytes, "CUPTI for %s", other_name);
	for (int i = SUBSCRIBERS - 1; i >= 0; i--)
		if (subscribers[i].callback)
			snprintf(params->other_name, params->other_name_bytes, "%s",
				 subscribers[i].name);
}

/* A driver before r610 (CUDA 13.3) allows one subscriber. The lock is held. */
static bool may_subscribe(bool is_shared)
{
	int version;

	fake_driver_version(&version);
	if (is_shared && version < 13030)
		return false;
	if (!count_subscribers())
		return true;
	return !*other_name && !subscribers[0].callback && allows_several && is_shared;
}

int fake_cuptiSubscribe_v2(void **subscriber, cupti_callback_fn on_call, void *user,
			   struct cupti_subscriber_params *params)
{
	int result = CUPTI_E_MULTIPLE_SUBSCRIBERS;
	int at = 1;

	if (version_code() < 130000)
		return 11; /* CUPTI_ERROR_API_NOT_IMPLEMENTED */
	if (version_code() < CUPTI_VERSION_SECOND)
		return subscribe_old(subscriber, on_call, user, params);
	subscribe_use("cuptiSubscribe_v2");
	if (graphs_are_lost())
		return CUPTI_E_NOT_INITIALIZED;
	atomic_store(&is_attached, true);
	pthread_rwlock_wrlock(&lock);
	name_first(params);
	while (at < SUBSCRIBERS && subscribers[at].callback)
		at++;
	if (at < SUBSCRIBERS && may_subscribe(params->allows_several)) {
		second_was_used = true;
		allows_several = params->allows_several;
		*subscriber = add_subscriber(at, on_call, user, params->name);
		result = CUPTI_OK;
	}
	pthread_rwlock_unlock(&lock);
	return result;
}

int fake_cuptiUnsubscribe(void *subscriber)
{
	int at = subscribe_index(subscriber);

	subscribe_use("cuptiUnsubscribe");
	if (at < 0)
		return 1; /* CUPTI_ERROR_INVALID_PARAMETER */
	subscribe_exclude("cuptiUnsubscribe");
	pthread_rwlock_wrlock(&lock);
	subscribers[at].callback = NULL;
	memset(subscribers[at].is_enabled, 0, sizeof(subscribers[at].is_enabled));
	pthread_rwlock_unlock(&lock);
	if (at > 0)
		records_forget(at);
	return CUPTI_OK;
}

int fake_cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t call)
{
	int at = subscribe_index(subscriber);

	subscribe_use("cuptiEnableCallback");
	if (at < 0 || domain >= DOMAINS || call >= CALLS)
		return 1;
	pthread_rwlock_wrlock(&lock);
	subscribers[at].is_enabled[domain][call] = enable;
	pthread_rwlock_unlock(&lock);
	return CUPTI_OK;
}

bool subscribe_wants(uint32_t domain, uint32_t call)
{
	bool wants = false;

	pthread_rwlock_rdlock(&lock);
	for (int i = 0; i < SUBSCRIBERS; i++)
		wants = wants ||
			(subscribers[i].callback && subscribers[i].is_enabled[domain][call]);
	pthread_rwlock_unlock(&lock);
	return wants;
}

static void notify_one(int at, uint32_t domain, uint32_t call, const void *data)
{
	void (*first)(void) = atomic_load(&hook);
	cupti_callback_fn notify = NULL;
	void *user = NULL;

	pthread_rwlock_rdlock(&lock);
	if (subscribers[at].callback && subscribers[at].is_enabled[domain][call]) {
		notify = subscribers[at].callback;
		user = subscribers[at].user;
	}
	pthread_rwlock_unlock(&lock);
	if (!notify)
		return;
	if (first)
		first();
	notify(user, domain, call, data);
}

/* The lock is not held during a callback, so it may come while its subscriber unsubscribes. */
/*
 * For each thread CUPTI counts the calls that it has seen begin and not end, up to three in each
 * other, and reports no more then. It sees a call's begin or end while its callback is enabled
 * (machine code of 13.0.85; on an H100 threads were not reported after four lost ends).
 */
static bool is_reported(uint32_t call, const struct cupti_callback_data *data)
{
	static _Thread_local uint32_t depth;
	static _Thread_local uint32_t generation;

	if (generation != atomic_load(&finalized))
		depth = 0;
	generation = atomic_load(&finalized);
	if (!subscribe_wants(CUPTI_DOMAIN_DRIVER_API, call))
		return false;
	if (data->site == CUPTI_SITE_ENTER)
		return ++depth <= DEPTH_MAX;
	return depth && --depth < DEPTH_MAX;
}

void subscribe_notify(uint32_t domain, uint32_t call, const void *data)
{
	if (domain == CUPTI_DOMAIN_DRIVER_API && !is_reported(call, data))
		return;
	for (int i = 0; i < SUBSCRIBERS; i++)
		notify_one(i, domain, call, data);
}

uint32_t subscribe_next_correlation(void)
{
	return atomic_fetch_add(&next_correlation, 1);
}

bool subscribe_is_idle(void)
{
	uint32_t count;

	pthread_rwlock_rdlock(&lock);
	count = count_subscribers() - (*other_name != '\0');
	pthread_rwlock_unlock(&lock);
	return !count;
}

bool subscribe_is_shared(void)
{
	uint32_t count;

	pthread_rwlock_rdlock(&lock);
	count = count_subscribers();
	pthread_rwlock_unlock(&lock);
	return count > 1;
}

void subscribe_reset(void)
{
	pthread_rwlock_wrlock(&lock);
	memset(subscribers, 0, sizeof(subscribers));
	atomic_fetch_add(&finalized, 1);
	*other_name = '\0';
	second_was_used = false;
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
	range_context_destroyed(context);
}

static _Atomic uint32_t captures;

uint32_t subscribe_captures(void)
{
	return atomic_load(&captures);
}

FAKE_EXPORT uint32_t fake_open_captures(void)
{
	return subscribe_captures();
}

static void note_capture(uint32_t call)
{
	if (call == CUPTI_CALL_BEGIN_CAPTURE_V2)
		atomic_fetch_add(&captures, 1);
	if (call == CUPTI_CALL_END_CAPTURE)
		atomic_fetch_sub(&captures, 1);
}

FAKE_EXPORT void fake_call_around(uint32_t call, void (*inside)(void))
{
	int result = 0;
	struct cupti_callback_data data = {
		.site = CUPTI_SITE_ENTER,
		.function_return_value = &result,
	};

	subscribe_notify(CUPTI_DOMAIN_DRIVER_API, call, &data);
	subscribe_change(true);
	inside();
	subscribe_change(false);
	data.site = CUPTI_SITE_EXIT;
	subscribe_notify(CUPTI_DOMAIN_DRIVER_API, call, &data);
}

static _Thread_local void *captured; /* the graph */

static void note_captured(uint64_t node)
{
	captured = (void *)(uintptr_t)(node >> 32);
}

FAKE_EXPORT void fake_call(uint32_t call, int result)
{
	const void *params[] = {NULL, &captured}; /* those of cuStreamEndCapture() */
	struct cupti_callback_data data = {
		.site = CUPTI_SITE_ENTER,
		.function_params = call == CUPTI_CALL_END_CAPTURE ? params : NULL,
		.function_return_value = &result,
	};

	subscribe_notify(CUPTI_DOMAIN_DRIVER_API, call, &data);
	if (result == CUPTI_OK)
		note_capture(call);
	data.site = CUPTI_SITE_EXIT;
	subscribe_notify(CUPTI_DOMAIN_DRIVER_API, call, &data);
}

static void add_records(const struct fake_launch *launch, uint32_t correlation)
{
	bool is_measured = !launch->captures && !launch->result &&
			   range_launch(launch->name, launch->config.grid[0]);
	struct cupti_kernel kernel = {
		.kind = CUPTI_KIND_CONCURRENT_KERNEL,
		.start_ns = launch->start_ns,
		.end_ns = launch->end_ns + is_measured * (launch->end_ns - launch->start_ns),
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

/* Programs in Python declare these structs again. */
FAKE_EXPORT const uint32_t fake_launch_bytes = sizeof(struct fake_launch);
FAKE_EXPORT const uint32_t fake_pc_bytes = sizeof(struct fake_pc);

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
	struct cuda_launch_params params = {.function = launch->function};
	struct cuda_launch_config config = {.stream = NULL};
	struct cuda_launch_ex_params ex = {.config = &config, .function = launch->function};

	memcpy(params.sizes, launch->config.grid, 6 * sizeof(uint32_t));
	params.sizes[6] = launch->config.dynamic_shared_bytes;
	memcpy(config.sizes, params.sizes, sizeof(config.sizes));
	if (launch->function)
		data.function_params =
			launch->call == CUPTI_CALL_LAUNCH_KERNEL_EX ? (void *)&ex : (void *)&params;
	if (!launch->is_unseen)
		subscribe_notify(CUPTI_DOMAIN_DRIVER_API, launch->call, &data);
	pc_sampling_busy(true);
	if (launch->function)
		pc_sampling_launch(launch->function);
	if (launch->captures) {
		note_captured(launch->captures);
		fake_graph_event(CUPTI_RESOURCE_GRAPHNODE_CREATED, launch->captures, 0,
				 CUDA_GRAPH_NODE_KERNEL);
	}
	add_records(launch, data.correlation_id);
	if (launch->takes_us)
		usleep(launch->takes_us);
	if (launch->inside)
		launch->inside();
	data.site = CUPTI_SITE_EXIT;
	pc_sampling_busy(false);
	if (!launch->is_unseen)
		subscribe_notify(CUPTI_DOMAIN_DRIVER_API, launch->call, &data);
	return data.correlation_id;
}

static void ignore(void *user, uint32_t domain, uint32_t call, const void *data)
{
}

static uint64_t time_callbacks(cupti_callback_fn callback, const struct fake_launch *launch,
			       uint32_t first, uint32_t count)
{
	struct cupti_callback_data data = {
		.function_return_value = &(int){0},
		.symbol_name = launch->name,
		.context = launch->context,
	};
	uint64_t start_ns = clock_monotonic_ns();

	for (uint32_t i = 0; i < count; i++) {
		data.correlation_id = first + i;
		data.site = CUPTI_SITE_ENTER;
		callback(NULL, CUPTI_DOMAIN_DRIVER_API, launch->call, &data);
		data.site = CUPTI_SITE_EXIT;
		callback(NULL, CUPTI_DOMAIN_DRIVER_API, launch->call, &data);
	}
	return clock_monotonic_ns() - start_ns;
}

FAKE_EXPORT uint64_t fake_time_launches(const struct fake_launch *launch, uint32_t count)
{
	uint32_t first = launch->is_unseen ? 1 : atomic_fetch_add(&next_correlation, count);
	cupti_callback_fn callback = ignore;
	uint64_t spent_ns;

	pthread_rwlock_rdlock(&lock);
	for (int i = SUBSCRIBERS - 1; i >= 0; i--)
		if (subscribers[i].callback)
			callback = subscribers[i].callback;
	pthread_rwlock_unlock(&lock);
	spent_ns = time_callbacks(launch->is_unseen ? ignore : callback, launch, first, count);
	for (uint32_t i = 0; i < count && !launch->is_unseen; i++)
		add_records(launch, first + i);
	return spent_ns;
}

/* ------------------------------------------------------------------ other tools */

FAKE_EXPORT bool fake_other_subscribe(const char *name)
{
	bool done;

	pthread_rwlock_wrlock(&lock);
	done = !count_subscribers() && !second_was_used;
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
	/* With several subscribers it returns early. */
	if (subscribe_is_shared())
		return;
	atomic_store(&is_attached, false);
	records_reset();
	subscribe_reset();
	graphs_left();
}

int fake_cuptiFinalize(void)
{
	subscribe_use("cuptiFinalize");
	if (subscribe_is_shared())
		return CUPTI_OK;
	pc_sampling_reset();
	range_reset();
	fake_other_finalize();
	return CUPTI_OK;
}

FAKE_EXPORT bool fake_is_silent(void)
{
	bool is_silent = records_are_idle();

	for (uint32_t event = 0; event < CALLS; event++)
		is_silent = is_silent && !subscribe_wants(CUPTI_DOMAIN_RESOURCE, event);
	return is_silent;
}

FAKE_EXPORT bool fake_is_idle(void)
{
	return subscribe_is_idle() && records_are_idle();
}
