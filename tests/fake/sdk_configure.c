/*
 * Registration with the fake librocprofiler-sdk: of tools, once per process or at any time, and of
 * HIP. Contexts and services are made only while a tool is being initialized.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake/gpus.h"
#include "fake/sdk_entries.h"
#include "fake/sdk_state.h"

#define GUARD 0xa5
#define CLIENTS_MAX 8
#define ANY_TIME 10302u   /* since then a tool may register at any time */
#define LATE_START 10300u /* since then the library asks for the tables that it has not got */

struct fake_context contexts[FAKE_CONTEXTS];

/* A tool: its function rocprofiler_configure(), and what that has returned. */
static struct {
	sdk_configure_fn configure;
	struct sdk_configure_result *result;
} clients[CLIENTS_MAX];
static size_t client_count;

static _Atomic int state; /* 0: not initialized, -1: it is being, 1: it is */
static _Atomic int end;   /* the same of the end */
static _Atomic pid_t owner;
static _Atomic uint32_t stops;
static _Atomic bool has_hip;
static _Atomic bool has_hsa;

uint32_t configure_version(void)
{
	const char *named = getenv("FAKE_SDK_VERSION");

	return named ? (uint32_t)atoi(named) : 10201;
}

size_t configure_grown(void)
{
	return configure_version() >= 10300 ? 32 : 0;
}

bool configure_is_final(void)
{
	return atomic_load(&end) > 0;
}

int configure_check(void)
{
	return atomic_load(&end) > 0       ? SDK_E_FINALIZED
	       : atomic_load(&state) == -1 ? SDK_OK
					   : SDK_E_CONFIGURATION_LOCKED;
}

/* ------------------------------------------------------------------ clients */

static void finalize_client(struct sdk_client client)
{
	fprintf(stderr, "fake: a tool that ends itself waits for itself (rocm-systems#11123)\n");
	abort();
}

/* Calls the tool with a client of this version's size, and checks that it writes no more. */
static struct sdk_configure_result *ask(sdk_configure_fn configure)
{
	uint32_t version = configure_version();
	size_t bytes = version < 10000 ? 16 : sizeof(struct sdk_client);
	uint8_t client[64];
	struct sdk_configure_result *result;

	memset(client, GUARD, sizeof(client));
	memset(client, 0, bytes);
	if (version >= 10000)
		memcpy(client, &bytes, sizeof(bytes));
	result = configure(version, "fake", 0, (struct sdk_client *)(void *)client);
	for (size_t i = bytes; i < sizeof(client); i++)
		if (client[i] != GUARD) {
			fprintf(stderr, "fake: the tool wrote after the end of its client id\n");
			abort();
		}
	return result;
}

static void add_client(sdk_configure_fn configure)
{
	for (size_t i = 0; i < client_count; i++)
		if (clients[i].configure == configure)
			return;
	if (configure && client_count < CLIENTS_MAX)
		clients[client_count++].configure = configure;
}

static void add_client_of(void *library)
{
	sdk_configure_fn configure;

	find_function(&configure, library, "rocprofiler_configure");
	add_client(configure);
}

/* As the library reads the list: of several entries, one that no colon follows is dropped. */
static void add_named_tools(const char *tools)
{
	char *list = strdup(tools ? tools : "");
	char *at = list;

	for (char *colon; (colon = strchr(at, ':')) || (at == list && *at);) {
		void *library;

		if (colon)
			*colon = '\0';
		library = *at ? dlopen(at, RTLD_LOCAL | RTLD_LAZY) : NULL;
		if (*at && !library)
			abort(); /* as the library: LOG(FATAL) */
		add_client_of(library);
		if (!colon)
			break;
		at = colon + 1;
	}
	free(list);
}

static bool initialize_client(size_t i)
{
	struct sdk_configure_result *result = ask(clients[i].configure);

	clients[i].result = result;
	if (result && result->initialize &&
	    result->initialize(finalize_client, result->data) != 0) {
		memset(contexts, 0, sizeof(contexts));
		clients[i].result = NULL;
	}
	return clients[i].result;
}

/* Each of both may be NULL. */
static void initialize(sdk_configure_fn forced, const char *tools)
{
	atomic_store(&state, -1);
	/* Before the tools: their functions at exit run earlier. */
	atexit(fake_sdk_finalize);
	add_client(forced);
	add_named_tools(tools);
	add_client_of(dlopen(NULL, RTLD_LAZY)); /* visible in the program */
	for (size_t i = 0; i < client_count; i++)
		if (initialize_client(i))
			atomic_store(&owner, getpid());
	atomic_store(&state, 1);
}

/* The library's file becomes the one that the program's children load. */
static void name_library(void)
{
	Dl_info here;

	if (configure_version() >= LATE_START &&
	    dladdr((void *)(uintptr_t)fake_sdk_finalize, &here))
		setenv("ROCPROFILER_REGISTER_LIBRARY", here.dli_fname, 0);
}

/* Fails, for example, if librocprofiler-register is not loaded. */
static int ask_for_tables(void)
{
	void *library = dlopen("librocprofiler-register.so.0", RTLD_LAZY | RTLD_NOLOAD);
	int (*invoke)(void);

	find_function(&invoke, library, "rocprofiler_register_invoke_nonpropagated_registrations");
	return invoke ? invoke() : SDK_E_NOT_AVAILABLE;
}

static int add_at_any_time(sdk_configure_fn configure)
{
	atomic_store(&state, -1);
	add_client(configure);
	if (initialize_client(client_count - 1))
		atomic_store(&owner, getpid());
	atomic_store(&state, 1);
	return ask_for_tables();
}

/*
 * Sources: rocprofiler-sdk, source/lib/rocprofiler-sdk/registration.cpp, of 1.0.0 (rocm-systems
 * 1b1610fc) and of 2026 (0028ad56), which has the late start and the registration at any time.
 */
int fake_force_configure(sdk_configure_fn configure)
{
	uint32_t version = configure_version();

	if (atomic_load(&end))
		return SDK_E_FINALIZED;
	for (size_t i = 0; version >= ANY_TIME && i < client_count; i++)
		if (clients[i].configure == configure)
			return SDK_OK;
	if (atomic_load(&state) > 0 && version >= ANY_TIME)
		return add_at_any_time(configure);
	if (atomic_load(&state))
		return SDK_E_CONFIGURATION_LOCKED;
	setenv("ROCPROFILER_REGISTER_FORCE_LOAD", "1", 1);
	name_library();
	initialize(configure, getenv("ROCP_TOOL_LIBRARIES"));
	if (version >= LATE_START)
		ask_for_tables();
	return SDK_OK;
}

/* HIP is initialized and finds this tool, as if ROCP_TOOL_LIBRARIES named it. */
FAKE_EXPORT int fake_sdk_register_with(sdk_configure_fn configure)
{
	if (atomic_load(&state))
		return SDK_E_CONFIGURATION_LOCKED;
	initialize(configure, NULL);
	return SDK_OK;
}

FAKE_EXPORT int rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance,
					  void **tables, uint64_t count);

/* HIP's tables: from here on the library sees its calls. */
FAKE_EXPORT int rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance,
					  void **tables, uint64_t count)
{
	if (atomic_load(&end))
		return 0;
	if (!atomic_load(&state)) {
		name_library();
		initialize(NULL, getenv("ROCP_TOOL_LIBRARIES"));
	}
	if (strcmp(name, "hip") == 0)
		atomic_store(&has_hip, true);
	if (strcmp(name, "hsa") == 0)
		atomic_store(&has_hsa, true);
	return 0;
}

static void initialize_hip(void)
{
	const char *path = getenv("PROTON_HIP_PATH");
	void *hip = path ? dlopen(path, RTLD_LAZY) : NULL;
	void (*call)(void);

	find_function(&call, hip, "fake_hip_initialize");
	if (call)
		call();
}

bool configure_sees_hip(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, initialize_hip);
	return atomic_load(&has_hip);
}

bool configure_sees_queues(void)
{
	return atomic_load(&has_hsa);
}

/*
 * At exit, as registration.cpp does: the tools' functions, with records in the buffers that were
 * not handed over; they may be flushed. Then the threads end, and nothing works any more.
 */
FAKE_EXPORT void fake_sdk_finalize(void)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&end, &none, -1))
		return;
	for (size_t i = 0; i < client_count; i++)
		if (clients[i].result && clients[i].result->finalize)
			clients[i].result->finalize(clients[i].result->data);
	buffers_finish();
	atomic_store(&end, 1);
}

int fake_is_initialized(int *status)
{
	*status = atomic_load(&state);
	return SDK_OK;
}

int fake_get_version(uint32_t *major, uint32_t *minor, uint32_t *patch)
{
	uint32_t version = configure_version();

	*major = version / 10000;
	*minor = version / 100 % 100;
	*patch = version % 100;
	return SDK_OK;
}

int fake_get_timestamp(uint64_t *timestamp_ns)
{
	*timestamp_ns = clock_real_ns();
	return SDK_OK;
}

/* ------------------------------------------------------------------ contexts */

int configure_find(struct sdk_context context, int status, struct fake_context **out)
{
	bool exists = context.handle && context.handle <= FAKE_CONTEXTS &&
		      contexts[context.handle - 1].exists;

	*out = exists ? &contexts[context.handle - 1] : NULL;
	return status == SDK_OK && !exists ? SDK_E_CONTEXT_NOT_FOUND : status;
}

/* A context that can be started or stopped. */
static int find_running(struct sdk_context context, struct fake_context **out)
{
	return configure_find(context, configure_is_final() ? SDK_E_FINALIZED : SDK_OK, out);
}

int fake_create_context(struct sdk_context *context)
{
	int status = configure_check();

	if (status != SDK_OK)
		return status;
	if (context->handle)
		return SDK_E_CONTEXT_ID_NOT_ZERO;
	for (uint64_t i = 0; i < FAKE_CONTEXTS; i++) {
		if (contexts[i].exists)
			continue;
		contexts[i].exists = true;
		context->handle = i + 1;
		return SDK_OK;
	}
	return SDK_E_INVALID_ARGUMENT;
}

int fake_start_context(struct sdk_context context)
{
	struct fake_context *started;
	int status = find_running(context, &started);

	if (status == SDK_OK)
		atomic_store(&started->is_started, true);
	return status;
}

/* Allowed in a forked child: it only stores. */
int fake_stop_context(struct sdk_context context)
{
	struct fake_context *stopped;
	int status = find_running(context, &stopped);

	if (status != SDK_OK)
		return status;
	if (!atomic_exchange(&stopped->is_started, false))
		return SDK_E_CONTEXT_NOT_STARTED;
	atomic_fetch_add(&stops, 1);
	return SDK_OK;
}

FAKE_EXPORT uint32_t fake_sdk_started(void)
{
	uint32_t count = 0;

	for (size_t i = 0; i < FAKE_CONTEXTS; i++)
		count += atomic_load(&contexts[i].is_started);
	return count;
}

FAKE_GETTER(sdk_stops, uint32_t, stops)

/* ------------------------------------------------------------------ services */

static int set_operations(struct fake_service *service, enum fake_kind kind, const int32_t *numbers,
			  size_t count)
{
	if (kind == KIND_NONE)
		return SDK_E_KIND_NOT_FOUND;
	if (service->is_on)
		return SDK_E_SERVICE_ALREADY_CONFIGURED;
	for (size_t i = 0; i < count; i++) {
		if (numbers[i] < 0 || (size_t)numbers[i] >= names_operation_count(kind))
			return SDK_E_OPERATION_NOT_FOUND;
		service->wants[numbers[i]] = true;
	}
	service->wants_all = !count;
	service->is_on = true;
	return SDK_OK;
}

int fake_configure_callback_tracing_service(struct sdk_context context, int number,
					    const int32_t *numbers, size_t count,
					    sdk_callback_fn callback, void *data)
{
	struct fake_context *of;
	enum fake_kind kind = names_kind(LIST_CALLBACK, number);
	int status = configure_find(context, configure_check(), &of);

	if (status != SDK_OK)
		return status;
	of->callbacks[kind].callback = callback;
	of->callbacks[kind].data = data;
	return set_operations(&of->callbacks[kind], kind, numbers, count);
}

int fake_configure_buffer_tracing_service(struct sdk_context context, int number,
					  const int32_t *numbers, size_t count,
					  struct sdk_buffer buffer)
{
	struct fake_context *of;
	enum fake_kind kind = names_kind(LIST_BUFFER, number);
	int status = configure_find(context, configure_check(), &of);

	if (status != SDK_OK)
		return status;
	if (!buffers_exist(buffer.handle))
		return SDK_E_BUFFER_NOT_FOUND;
	of->buffers[kind].buffer = buffer.handle;
	return set_operations(&of->buffers[kind], kind, numbers, count);
}

int fake_configure_external_correlation_id_request_service(struct sdk_context context,
							   const int *numbers, size_t count,
							   sdk_request_fn callback, void *data)
{
	struct fake_context *of;
	int status = configure_find(context, configure_check(), &of);

	if (status != SDK_OK)
		return status;
	for (size_t i = 0; i < count; i++) {
		enum fake_kind kind = names_kind(LIST_REQUEST, numbers[i]);

		if (kind == KIND_NONE || of->wants_request[kind])
			return kind ? SDK_E_SERVICE_ALREADY_CONFIGURED : SDK_E_INVALID_ARGUMENT;
		of->wants_request[kind] = true;
	}
	of->request = callback;
	of->request_data = data;
	return SDK_OK;
}

/* ------------------------------------------------------------------ agents */

#define AGENTS 3

/* FAKE_SDK_HIP_HIDES: the GPUs that HIP does not see, as bits. */
static uint32_t visibility(uint32_t agent)
{
	const char *hidden = getenv("FAKE_SDK_HIP_HIDES");

	return hidden && agent && (strtoul(hidden, NULL, 10) >> (agent - 1) & 1) ? 1 : 3;
}

/* A CPU and two GPUs, in structs of this version's size. */
int fake_query_available_agents(int version, sdk_agents_fn callback, size_t bytes, void *data)
{
	static uint8_t places[AGENTS][512];
	const struct sdk_agent *agents[AGENTS];

	if (version != SDK_AGENT_VERSION_0)
		return SDK_E_INVALID_ARGUMENT;
	if (bytes > sizeof(struct sdk_agent) + configure_grown())
		return SDK_E_INCOMPATIBLE_ABI;
	for (uint32_t i = 0; i < AGENTS; i++) {
		const struct fake_gpu *gpu = i ? &fake_hip_gpus[i - 1] : NULL;
		struct sdk_agent agent = {
			.size = sizeof(agent) + configure_grown(),
			.id = 0xa0 + i,
			.type = i ? SDK_AGENT_GPU : 1,
			.compute_units = gpu ? (uint32_t)gpu->processors : 0,
			.max_clock_mhz = gpu ? (uint32_t)gpu->clock_khz / 1000 : 4400,
			.name = !i       ? "EPYC"
				: i == 2 ? "gfx90a"
					 : "gfx942",
			.product = !i       ? "EPYC"
				   : i == 1 ? "Fake Instinct 0"
					    : "Fake Instinct 1",
			.logical_type_id = i ? (int32_t)i - 1 : 0,
			.visibility = visibility(i),
			.uuid = {(uint8_t)i},
		};

		memset(places[i], GUARD, sizeof(places[i]));
		memcpy(places[i], &agent, sizeof(agent));
		agents[i] = (const struct sdk_agent *)(const void *)places[i];
	}
	return callback(version, agents, AGENTS, data);
}
