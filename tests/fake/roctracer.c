/* Fake libroctracer64: callbacks of HIP's and ROCTX's calls, and launches. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/amd/hip_graphs.h"
#include "base/array.h"
#include "base/clock.h"
#include "fake/amd_calls.h"
#include "fake/entries.h"
#include "fake/roctracer_state.h"

#define OPS 3
#define ROCTX_CALLS 5
#define NO_SUCH_FUNCTION 98 /* hipErrorInvalidDeviceFunction */

struct registration {
	roctracer_callback_fn callback;
	void *user;
};

#define NAME_OF(name, ...) #name,

/* HIP calls in an order that no version of HIP has: numbers have to be asked for. */
static const char *const hip_calls[] = {
	"(none)",
#define M NAME_OF
#define L NAME_OF
#define G NAME_OF
#define D NAME_OF
#include "backend/amd/hip_calls.def"
	HIP_GRAPH_CALLS(NAME_OF) "hipMalloc",
};
#define HIP_CALLS (sizeof(hip_calls) / sizeof(hip_calls[0]))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the following variables */
static struct registration hip_callbacks[HIP_CALLS];
static struct registration roctx_callbacks[ROCTX_CALLS];
static struct pool *activities[OPS];
static bool has_looked_for_hip;
static bool has_looked_for_roctx;
static void *hip_library;
static void *roctx_library;

/* ------------------------------------------------------------------ libraries of the process */

struct search {
	const char *names[2];
	char found[PATH_MAX]; /* "": none */
};

static int look(struct dl_phdr_info *info, size_t size, void *user)
{
	struct search *search = user;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	for (int i = 0; i < 2 && !*search->found; i++)
		if (strncmp(name, search->names[i], strlen(search->names[i])) == 0)
			snprintf(search->found, sizeof(search->found), "%s", info->dlpi_name);
	return *search->found != '\0';
}

static void *find_loaded(const char *real, const char *fake)
{
	struct search search = {.names = {real, fake}};

	dl_iterate_phdr(look, &search);
	/* Not in the search, which holds a lock of the loader. */
	return *search.found ? dlopen(search.found, RTLD_LAZY) : NULL;
}

static void report_set_device(void)
{
	fake_hip_call(&(struct fake_hip_launch){.call = "hipSetDevice", .is_reported_only = true});
}

static void attach_to_hip(void)
{
	void (*attach)(fake_hook_fn report);

	find_function(&attach, hip_library, "fake_report_set_device");
	if (attach)
		attach(report_set_device);
}

/* Once for all: a library that is loaded later is never seen. The lock is held. */
static bool has_hip(void)
{
	if (!has_looked_for_hip) {
		hip_library = find_loaded("libamdhip64.so", "libfake_hip.so");
		attach_to_hip();
	}
	has_looked_for_hip = true;
	return hip_library;
}

static int on_roctx(uint32_t domain, uint32_t call, void *data)
{
	struct registration to;

	pthread_mutex_lock(&lock);
	to = roctx_callbacks[call % ROCTX_CALLS];
	pthread_mutex_unlock(&lock);
	if (to.callback)
		to.callback(domain, call, data, to.user);
	return to.callback ? 0 : -1;
}

static bool has_roctx(void)
{
	void (*use)(int (*report)(uint32_t, uint32_t, void *));

	if (!has_looked_for_roctx)
		roctx_library = find_loaded("libroctx64.so", "libfake_roctx.so");
	if (roctx_library && !has_looked_for_roctx) {
		find_function(&use, roctx_library, "roctxRegisterTracerCallback");
		use(on_roctx);
	}
	has_looked_for_roctx = true;
	return roctx_library;
}

/* ------------------------------------------------------------------ entry points */

static int version(const char *variable, int usual)
{
	const char *text = getenv(variable);

	return text ? atoi(text) : usual;
}

int fake_roctracer_version_major(void)
{
	return version("FAKE_ROCTRACER_MAJOR", ROCTRACER_MAJOR);
}

int fake_roctracer_version_minor(void)
{
	return version("FAKE_ROCTRACER_MINOR", ROCTRACER_MINOR);
}

static uint32_t number_of(const char *name)
{
	for (uint32_t i = 1; i < HIP_CALLS; i++)
		if (strcmp(hip_calls[i], name) == 0)
			return i;
	return 0;
}

int fake_roctracer_op_code(uint32_t domain, const char *name, uint32_t *call, uint32_t *kind)
{
	if (domain != ROCTRACER_DOMAIN_HIP_API)
		return ROCTRACER_E_INVALID_DOMAIN;
	*call = number_of(name);
	if (kind)
		*kind = 0;
	return *call ? ROCTRACER_OK : ROCTRACER_E_INVALID_ARGUMENT;
}

static int set_callback(int domain, uint32_t call, struct registration to)
{
	int result = ROCTRACER_OK;

	pthread_mutex_lock(&lock);
	if (domain == ROCTRACER_DOMAIN_HIP_API && call < HIP_CALLS) {
		if (has_hip())
			hip_callbacks[call] = to;
	} else if (domain == ROCTRACER_DOMAIN_ROCTX && call < ROCTX_CALLS) {
		if (has_roctx())
			roctx_callbacks[call] = to;
	} else {
		result = ROCTRACER_E_INVALID_ARGUMENT;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int fake_roctracer_enable_op_callback(int domain, uint32_t call, roctracer_callback_fn callback,
				      void *user)
{
	if (!callback)
		return ROCTRACER_E_INVALID_ARGUMENT;
	return set_callback(domain, call, (struct registration){callback, user});
}

int fake_roctracer_disable_op_callback(int domain, uint32_t call)
{
	return set_callback(domain, call, (struct registration){NULL, NULL});
}

static int set_activity(int domain, uint32_t op, struct pool *pool)
{
	if (domain != ROCTRACER_DOMAIN_HIP_OPS || op >= OPS)
		return ROCTRACER_E_INVALID_ARGUMENT;
	pthread_mutex_lock(&lock);
	if (has_hip())
		activities[op] = pool;
	pthread_mutex_unlock(&lock);
	return ROCTRACER_OK;
}

int fake_roctracer_enable_op_activity_expl(int domain, uint32_t op, void *pool)
{
	return pool ? set_activity(domain, op, pool) : ROCTRACER_E_NO_POOL;
}

int fake_roctracer_disable_op_activity(int domain, uint32_t op)
{
	return set_activity(domain, op, NULL);
}

struct pool *activity_pool(uint32_t op)
{
	struct pool *pool;

	pthread_mutex_lock(&lock);
	pool = activities[op % OPS];
	pthread_mutex_unlock(&lock);
	return pool;
}

/* ------------------------------------------------------------------ launches */

static void set_capture(uint64_t stream, int status)
{
	void (*set)(uint64_t stream, int status);

	find_function(&set, hip_library, "fake_set_capture");
	if (set)
		set(stream, status);
}

void calls_set_error(int error)
{
	void (*set)(int error);

	find_function(&set, hip_library, "fake_set_error");
	if (set)
		set(error);
}

/* Where HIP's headers have the arguments of a launch; `is_pointer`: in what the first points to. */
static const struct place {
	const char *call;
	size_t sizes, shared_bytes, stream;
	bool is_in_items, is_pointer;
} places[] = {
	{"hipModuleLaunchKernel", 8, 32, 40, false, false},
	{"hipModuleLaunchCooperativeKernel", 8, 32, 40, false, false},
	{"hipExtModuleLaunchKernel", 8, 32, 40, true, false},
	{"hipHccModuleLaunchKernel", 8, 32, 40, true, false},
	{"hipLaunchKernel", 8, 48, 56, false, false},
	{"hipExtLaunchKernel", 8, 48, 56, false, false},
	{"hipLaunchCooperativeKernel", 8, 48, 56, false, false},
	{"hipDrvLaunchKernelEx", 0, 24, 32, false, true},
	{"hipLaunchKernelExC", 0, 24, 32, false, true},
};

static void set_launch(char *arguments, const struct place *place,
		       const struct fake_hip_launch *launch)
{
	const struct launch_config *config = &launch->config;
	uint32_t sizes[6];

	for (int i = 0; i < 3; i++) {
		sizes[i] = config->grid[i] * (place->is_in_items ? config->block[i] : 1);
		sizes[3 + i] = config->block[i];
	}
	memcpy(arguments + place->sizes, sizes, sizeof(sizes));
	memcpy(arguments + place->shared_bytes, &config->dynamic_shared_bytes, sizeof(uint32_t));
	memcpy(arguments + place->stream, &launch->stream, sizeof(launch->stream));
}

static void set_arguments(struct roctracer_hip_call *data, const struct fake_hip_launch *launch)
{
	static _Thread_local uint64_t config[5];
	const uint64_t graph[] = {(uintptr_t)launch->graph, (uintptr_t)launch->stream};

	for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
		if (strcmp(places[i].call, launch->call) != 0)
			continue;
		data->arguments[0] = (uintptr_t)config;
		set_launch(places[i].is_pointer ? (char *)config : (char *)data->arguments,
			   &places[i], launch);
		return;
	}
	if (strcmp(launch->call, "hipGraphLaunch") == 0)
		memcpy(data->arguments, graph, sizeof(graph));
	else if (strcmp(launch->call, "hipMemcpyAsync") == 0)
		memcpy(data->arguments + 4, &launch->stream, sizeof(launch->stream));
	else if (strstr(launch->call, "Graph") || strstr(launch->call, "Capture"))
		memcpy(data->arguments, launch->words, sizeof(launch->words));
}

static void run(const struct fake_hip_launch *launch, uint64_t correlation)
{
	if (launch->has_failed)
		calls_set_error(NO_SUCH_FUNCTION);
	else if (launch->is_reported_only)
		return;
	else if (strstr(launch->call, "BeginCapture"))
		set_capture(launch->words[0], 1);
	else if (strstr(launch->call, "EndCapture"))
		set_capture(launch->words[0], 0);
	else if (!launch->is_captured)
		pool_launch(launch, correlation);
}

static void notify(struct registration to, uint32_t call, struct roctracer_hip_call *data,
		   uint32_t phase)
{
	data->phase = phase;
	amd_call_hook();
	to.callback(ROCTRACER_DOMAIN_HIP_API, call, data, to.user);
}

static struct registration registration_of(uint32_t call)
{
	struct registration to;

	pthread_mutex_lock(&lock);
	to = hip_callbacks[call];
	pthread_mutex_unlock(&lock);
	return to;
}

static void ignore(uint32_t domain, uint32_t call, const void *data, void *user)
{
}

static int (*peek)(void); /* hipPeekAtLastError() */

/* Asks HIP as the program's callback does: the answer is the fakes' work too. */
static void ignore_error(uint32_t domain, uint32_t call, const void *data, void *user)
{
	peek();
}

static uint64_t time_callbacks(struct registration to, const struct fake_hip_launch *launch,
			       uint64_t first, uint32_t count)
{
	uint32_t call = number_of(launch->call);
	struct roctracer_hip_call data = {0};
	uint64_t start_ns;

	set_arguments(&data, launch);
	start_ns = clock_monotonic_ns();
	for (uint32_t i = 0; i < count; i++) {
		data.correlation_id = first + i;
		data.phase = ROCTRACER_ENTER;
		to.callback(ROCTRACER_DOMAIN_HIP_API, call, &data, to.user);
		data.phase = ROCTRACER_EXIT;
		to.callback(ROCTRACER_DOMAIN_HIP_API, call, &data, to.user);
	}
	return clock_monotonic_ns() - start_ns;
}

uint64_t calls_time(const struct fake_hip_launch *launch, uint32_t count)
{
	uint64_t first = launch->is_unseen ? 1 : atomic_fetch_add(&amd_next_correlation, count);
	struct registration to = registration_of(number_of(launch->call));
	uint64_t spent_ns;

	find_function(&peek, hip_library, "hipPeekAtLastError");
	if (launch->is_unseen)
		to.callback = ignore_error;
	spent_ns = time_callbacks(to, launch, first, count);
	for (uint32_t i = 0; i < count && !launch->is_unseen; i++)
		run(launch, first + i);
	return spent_ns;
}

FAKE_EXPORT uint64_t fake_hip_call(const struct fake_hip_launch *launch)
{
	uint32_t call = number_of(launch->call);
	struct {
		struct roctracer_hip_call call;
		char more[4096]; /* other calls have more arguments */
	} data = {0};
	struct registration to = {NULL, NULL};

	if (!call)
		abort(); /* a test that names an unknown call */
	if (!launch->is_unseen)
		to = registration_of(call);
	if (!to.callback) {
		run(launch, 0);
		return 0;
	}
	set_arguments(&data.call, launch);
	data.call.correlation_id = atomic_fetch_add(&amd_next_correlation, 1);
	notify(to, call, &data.call, ROCTRACER_ENTER);
	run(launch, data.call.correlation_id);
	notify(to, call, &data.call, ROCTRACER_EXIT);
	return data.call.correlation_id;
}

FAKE_EXPORT bool fake_is_idle(void)
{
	bool idle = true;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < HIP_CALLS; i++)
		idle = idle && !hip_callbacks[i].callback;
	for (size_t i = 0; i < ROCTX_CALLS; i++)
		idle = idle && !roctx_callbacks[i].callback;
	for (size_t i = 0; i < OPS; i++)
		idle = idle && !activities[i];
	pthread_mutex_unlock(&lock);
	return idle;
}

FAKE_EXPORT bool fake_is_deaf(void)
{
	bool is_deaf;

	pthread_mutex_lock(&lock);
	is_deaf = has_looked_for_hip && !hip_library;
	pthread_mutex_unlock(&lock);
	return is_deaf;
}

static void other_buffer(const char *begin, const char *end, void *user)
{
}

FAKE_EXPORT void fake_steal(void)
{
	static const struct roctracer_properties properties = {
		.buffer_bytes = 4096,
		.on_buffer = other_buffer,
	};
	void *pool = NULL;

	fake_roctracer_open_pool_expl(&properties, &pool);
	for (uint32_t op = 0; op < OPS; op++)
		set_activity(ROCTRACER_DOMAIN_HIP_OPS, op, pool);
	for (uint32_t call = 1; call < HIP_CALLS; call++)
		fake_roctracer_enable_op_callback(ROCTRACER_DOMAIN_HIP_API, call, ignore, NULL);
}
