/*
 * Launches, copies and markers of the fake librocprofiler-sdk, as HIP and HSA report them: a call
 * is announced at enter and exit, and within it each dispatch asks for its external correlation.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake/amd_calls.h"
#include "fake/sdk_state.h"

#define NAMES 4096
#define DEFERRED_MAX 16
#define TIMED_AT_ONCE 200u
#define CALL_BYTES 120 /* of rocprofiler_callback_tracing_hip_api_data_t */

static _Atomic uint64_t next_dispatch = 1;
static _Atomic uint32_t extra;
static _Atomic bool queues_are_old;
static _Atomic bool is_deferring;
static pthread_mutex_t deferred_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the next two */
static struct fake_launch deferred[DEFERRED_MAX];
static size_t deferred_count;

static uint64_t thread_number(void)
{
	static _Thread_local uint64_t number;

	if (!number)
		number = (uint64_t)gettid();
	return number;
}

/* ------------------------------------------------------------------ callbacks */

/* State of a call in progress. */
struct call {
	enum fake_kind kind;
	int operation;
	uint64_t internal;
	void *payload; /* NULL: these words */
	uint64_t words[20];
	uint64_t user[FAKE_CONTEXTS];
	bool was_entered[FAKE_CONTEXTS];
};

/* An exit goes to the contexts that had the enter, even if one was stopped since. */
static void notify(struct call *call, int phase)
{
	for (size_t i = 0; i < FAKE_CONTEXTS; i++) {
		struct fake_service *service = &contexts[i].callbacks[call->kind];
		struct sdk_callback_record record = {
			.context = {i + 1},
			.thread_id = thread_number(),
			.internal = call->internal,
			.kind = names_number(LIST_CALLBACK, call->kind),
			.operation = call->operation,
			.phase = phase,
			.payload = call->payload ? call->payload : call->words,
		};
		bool is_wanted = configure_sees_hip() && atomic_load(&contexts[i].is_started) &&
				 service->is_on &&
				 (service->wants_all || service->wants[call->operation]);

		if (phase == SDK_PHASE_EXIT ? !call->was_entered[i] : !is_wanted)
			continue;
		call->was_entered[i] = true;
		amd_call_hook();
		service->callback(record, &call->user[i], service->data);
	}
}

static void begin(struct call *call, enum fake_kind kind, const char *name,
		  const uint64_t *arguments, size_t count)
{
	*call = (struct call){.kind = kind, .operation = names_operation(kind, name)};
	if (call->operation < 0) {
		fprintf(stderr, "fake: no operation %s\n", name);
		abort();
	}
	call->internal = atomic_fetch_add(&amd_next_correlation, 1);
	call->words[0] = CALL_BYTES;
	if (count)
		memcpy(call->words + 1, arguments, count * sizeof(*arguments));
	notify(call, SDK_PHASE_ENTER);
}

static void end(struct call *call, int result)
{
	memcpy(call->words + (CALL_BYTES - SDK_RESULT_BYTES) / 8, &result, sizeof(result));
	notify(call, SDK_PHASE_EXIT);
}

FAKE_EXPORT void fake_sdk_call(const char *name, const uint64_t *arguments, size_t count,
			       int result)
{
	struct call call;

	begin(&call, KIND_HIP_RUNTIME_API, name, arguments, count);
	end(&call, result);
}

void amd_call(const char *name, const uint64_t *arguments, size_t count, int result)
{
	fake_sdk_call(name, arguments, count, result);
}

FAKE_EXPORT void fake_sdk_range_push(const char *text)
{
	struct call call;

	begin(&call, KIND_MARKER_CORE_API, "roctxRangePushA",
	      &(uint64_t){(uint64_t)(uintptr_t)text}, 1);
	end(&call, 0);
}

FAKE_EXPORT void fake_sdk_range_pop(void)
{
	struct call call;

	begin(&call, KIND_MARKER_CORE_API, "roctxRangePop", NULL, 0);
	end(&call, 0);
}

/* ------------------------------------------------------------------ code objects */

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the following */
static char *names[NAMES];
static size_t name_count;

/* Structs that are longer than the declared part. */
static void *grow(uint8_t place[static 256], const void *given, size_t bytes)
{
	memset(place, 0xa5, 256);
	memcpy(place, given, bytes);
	memcpy(place, &(uint64_t){bytes + configure_grown()}, sizeof(uint64_t));
	return place;
}

static void announce(int operation, const void *given, size_t bytes)
{
	struct call call = {.kind = KIND_CODE_OBJECT, .operation = operation};
	uint8_t place[256];

	call.payload = grow(place, given, bytes);
	notify(&call, SDK_PHASE_LOAD);
}

/* Machine code of a code object, in memory or in a file. */
struct code {
	const void *bytes;
	size_t length;
	const char *uri;
};

/* A code object with one kernel is loaded. */
static void load(uint64_t kernel_id, const char *name, const struct launch_config *config,
		 const struct code *code)
{
	char *symbol;

	if (asprintf(&symbol, "%s.kd", name) < 0)
		abort();
	announce(SDK_CODE_OBJECT_LOAD,
		 &(struct sdk_code_object){
			 .id = kernel_id,
			 .agent = 0xa1,
			 .uri = code->uri ? code->uri : "memory://1",
			 .load_base = FAKE_CODE_BASE + FAKE_CODE_FIRST,
			 .load_delta = (int64_t)FAKE_CODE_BASE,
			 .storage = code->uri     ? 1
				    : code->bytes ? 2
						  : 0,
			 .memory = (uint64_t)(uintptr_t)code->bytes,
			 .memory_bytes = code->length,
		 },
		 sizeof(struct sdk_code_object));
	announce(SDK_CODE_OBJECT_KERNEL_SYMBOL,
		 &(struct sdk_kernel_symbol){
			 .kernel_id = kernel_id,
			 .code_object_id = kernel_id,
			 .name = symbol,
			 .group_bytes = config->static_shared_bytes,
			 .vector_registers = config->registers_per_thread,
		 },
		 sizeof(struct sdk_kernel_symbol));
	memset(symbol, 'x', strlen(symbol)); /* it is valid during the callback only */
	free(symbol);
}

/* The id of the kernel, loaded at the first use of its name; 0 has no name. */
static uint64_t load_once(const char *name, const struct launch_config *config,
			  const struct code *code)
{
	bool is_new = false;
	uint64_t id = 0;

	if (!name)
		return 0;
	pthread_mutex_lock(&names_lock);
	while (id < name_count && strcmp(names[id], name) != 0)
		id++;
	if (id == name_count && name_count < NAMES) {
		names[name_count++] = strdup(name);
		is_new = true;
	}
	if (is_new)
		load(id + 1, name, config, code);
	pthread_mutex_unlock(&names_lock);
	return id + 1;
}

static uint64_t kernel_of(const char *name, const struct launch_config *config)
{
	return load_once(name, config, &(struct code){0});
}

FAKE_EXPORT uint64_t fake_sdk_load_code(const char *kernel, const void *bytes, size_t length,
					const char *uri)
{
	return load_once(kernel, &(struct launch_config){.registers_per_thread = 32},
			 &(struct code){bytes, length, uri});
}

FAKE_GETTER(sdk_last_dispatch, uint64_t, next_dispatch - 1)

/* ------------------------------------------------------------------ dispatches */

static _Thread_local const uint64_t *asked; /* the answer that the program has given before */

/* The external correlation of a dispatch or a copy. */
static uint64_t ask(const struct fake_context *context, size_t index, enum fake_kind kind,
		    uint64_t internal)
{
	int number = names_number(LIST_REQUEST, kind);
	uint64_t thread = thread_number();
	uint64_t external = 0;
	int result;

	if (!context->wants_request[kind])
		return 0;
	if (asked)
		return *asked;
	if (getenv("FAKE_SDK_UNASKED"))
		return 0;
	amd_call_hook();
	result = context->request(thread, (struct sdk_context){index + 1}, number, 1, internal,
				  &external, context->request_data);
	return result == 0 ? external : 0;
}

/* `records` records, but for losses and duplicates. `given` begins with a struct sdk_record. */
static void complete(enum fake_kind kind, uint64_t internal, void *given, size_t bytes,
		     uint32_t records)
{
	struct sdk_record *head = given;

	for (size_t i = 0; i < FAKE_CONTEXTS; i++) {
		struct fake_context *context = &contexts[i];
		struct fake_service *service = &context->buffers[kind];

		if (!atomic_load(&context->is_started) || !service->is_on)
			continue;
		head->kind = names_number(LIST_BUFFER, kind);
		head->internal = internal;
		head->external = ask(context, i, kind, internal);
		head->thread_id = thread_number();
		for (uint32_t n = 0; n < records; n++)
			buffers_add(service->buffer, (struct sdk_context){i + 1},
				    SDK_CATEGORY_TRACING, (uint32_t)head->kind, given, bytes);
	}
}

static uint32_t items(const struct launch_config *config, int axis)
{
	return config->grid[axis] * (config->block[axis] ? config->block[axis] : 1);
}

static void dispatch(const struct fake_launch *launch, const char *name, uint64_t internal,
		     uint32_t records)
{
	const struct launch_config *config = &launch->config;
	struct sdk_dispatch record = {
		.head = {.operation = 2, .start_ns = launch->start_ns, .end_ns = launch->end_ns},
		.info_size = 72,
		.agent = 0xa1 + launch->device,
		.queue = 1,
		.kernel_id = kernel_of(name, config),
		.dispatch_id = atomic_fetch_add(&next_dispatch, 1),
		.group_bytes = config->static_shared_bytes + config->dynamic_shared_bytes,
		.workgroup = {config->block[0], config->block[1], config->block[2]},
		.grid = {items(config, 0), items(config, 1), items(config, 2)},
	};

	if (configure_sees_hip() && configure_sees_queues() && !atomic_load(&queues_are_old))
		complete(KIND_KERNEL_DISPATCH, internal, &record, sizeof(record), records);
}

/* The handle of a stream, where the call has it. */
static size_t put_stream(const char *name, uint64_t stream, uint64_t arguments[static 11],
			 uint64_t config[static 5])
{
	memset(arguments, 0, 11 * sizeof(*arguments));
	if (strcmp(name, "hipGraphLaunch") == 0) {
		arguments[1] = stream;
	} else if (strcmp(name, "hipLaunchKernelExC") == 0 ||
		   strcmp(name, "hipDrvLaunchKernelEx") == 0) {
		config[4] = stream;
		arguments[0] = (uint64_t)(uintptr_t)config;
	} else if (strstr(name, "Module")) {
		arguments[5] = stream;
	} else {
		arguments[6] = stream;
	}
	return 11;
}

/*
 * hsa/queue.cpp, WriteInterceptor: packets of a queue may be processed by another thread than the
 * one that launches. The request has the thread and the correlation of the former.
 */
static void dispatch_deferred(uint64_t internal)
{
	pthread_mutex_lock(&deferred_lock);
	for (size_t i = 0; i < deferred_count; i++)
		dispatch(&deferred[i], deferred[i].name, internal, 1);
	deferred_count = 0;
	pthread_mutex_unlock(&deferred_lock);
}

/*
 * A graph, or a launch on several devices, makes a dispatch per record; another launch makes one,
 * and other numbers of records are faults. A call that failed or is captured makes none.
 */
static void dispatch_all(const struct fake_launch *launch, uint64_t internal)
{
	bool is_many = launch->call == CUPTI_CALL_GRAPH_LAUNCH ||
		       launch->call == CUPTI_CALL_GRAPH_LAUNCH_PTSZ ||
		       launch->call == CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE;

	if (launch->result || launch->captures)
		return;
	if (atomic_load(&is_deferring)) {
		pthread_mutex_lock(&deferred_lock);
		deferred[deferred_count++ % DEFERRED_MAX] = *launch;
		pthread_mutex_unlock(&deferred_lock);
		return;
	}
	dispatch_deferred(internal);
	for (uint32_t i = 0; is_many && i < launch->records; i++)
		dispatch(launch, launch->name, internal, 1);
	if (!is_many)
		dispatch(launch, launch->name, internal, launch->records);
}

FAKE_EXPORT const uint32_t fake_launch_bytes = sizeof(struct fake_launch);

FAKE_EXPORT uint32_t fake_launch(const struct fake_launch *launch)
{
	const char *name = amd_call_of(launch->call);
	uint64_t stream = launch->stream ? amd_stream(launch->stream) : 0;
	uint64_t arguments[11];
	uint64_t config[5] = {0};
	size_t count = put_stream(name, stream, arguments, config);
	struct call call = {.internal = 0};
	struct call event = {.kind = KIND_HIP_GRAPH};
	bool has_event = strcmp(name, "hipGraphLaunch") == 0 &&
			 names_number(LIST_CALLBACK, KIND_HIP_GRAPH) >= 0;

	if (strcmp(name, "hipGraphLaunch") == 0)
		arguments[0] = launch->node_id;
	/* A call of HIP that no tool knows: the dispatch has its own correlation. */
	if (launch->is_unseen)
		call.internal = atomic_fetch_add(&amd_next_correlation, 1);
	else
		begin(&call, KIND_HIP_RUNTIME_API, name, arguments, count);
	for (uint32_t i = 0; i < atomic_load(&extra) && launch->records; i++)
		dispatch(launch, "__amd_rocclr_initHeap", call.internal, 1);
	if (has_event) {
		event.operation =
			names_operation(KIND_HIP_GRAPH, "HIP_GRAPH_OPERATION_EXEC_LAUNCH");
		event.internal = call.internal;
		notify(&event, SDK_PHASE_ENTER);
	}
	dispatch_all(launch, call.internal);
	if (has_event)
		notify(&event, SDK_PHASE_EXIT);
	if (!launch->is_unseen)
		end(&call, launch->result);
	return (uint32_t)call.internal;
}

static int operation_of(const struct fake_launch *launch)
{
	return names_operation(KIND_HIP_RUNTIME_API, amd_call_of(launch->call));
}

/* A started context that wants these callbacks; there must be one. */
static size_t find_context(enum fake_kind kind, int operation)
{
	size_t i = 0;

	while (!atomic_load(&contexts[i].is_started) || !contexts[i].callbacks[kind].is_on ||
	       !(contexts[i].callbacks[kind].wants_all ||
		 contexts[i].callbacks[kind].wants[operation]))
		i++;
	return i;
}

/* Callbacks of a few launches, made before they are timed: they are passed by value. */
struct timed {
	sdk_callback_fn callback;
	sdk_request_fn request;
	int kind; /* the request's */
	void *data[2];
	struct sdk_callback_record enter[TIMED_AT_ONCE];
	struct sdk_callback_record exit[TIMED_AT_ONCE];
};

static void ignore(struct sdk_callback_record record, uint64_t *user, void *data)
{
}

static int ignore_request(uint64_t thread, struct sdk_context context, int kind, int32_t operation,
			  uint64_t internal, uint64_t *external, void *data)
{
	return 0;
}

static uint64_t time_callbacks(const struct timed *timed, uint64_t external[static TIMED_AT_ONCE])
{
	uint64_t start_ns = clock_monotonic_ns();

	for (uint32_t i = 0; i < TIMED_AT_ONCE; i++) {
		const struct sdk_callback_record *enter = &timed->enter[i];
		uint64_t user = 0;

		timed->callback(*enter, &user, timed->data[0]);
		timed->request(enter->thread_id, enter->context, timed->kind, 1, enter->internal,
			       &external[i], timed->data[1]);
		timed->callback(timed->exit[i], &user, timed->data[0]);
	}
	return clock_monotonic_ns() - start_ns;
}

static struct timed make_timed(size_t at, const struct fake_launch *launch, const uint64_t *payload)
{
	const struct fake_service *service = &contexts[at].callbacks[KIND_HIP_RUNTIME_API];
	struct timed timed = {
		.callback = service->callback,
		.request = contexts[at].request,
		.kind = names_number(LIST_REQUEST, KIND_KERNEL_DISPATCH),
		.data = {service->data, contexts[at].request_data},
	};
	struct sdk_callback_record record = {
		.context = {at + 1},
		.thread_id = thread_number(),
		.kind = names_number(LIST_CALLBACK, KIND_HIP_RUNTIME_API),
		.operation = operation_of(launch),
		.payload = (void *)(uintptr_t)payload,
	};

	for (uint32_t i = 0; i < TIMED_AT_ONCE; i++) {
		record.internal = atomic_fetch_add(&amd_next_correlation, 1);
		record.phase = SDK_PHASE_ENTER;
		timed.enter[i] = record;
		record.phase = SDK_PHASE_EXIT;
		timed.exit[i] = record;
	}
	return timed;
}

FAKE_EXPORT uint64_t fake_time_launches(const struct fake_launch *launch, uint32_t count)
{
	const uint64_t payload[20] = {CALL_BYTES};
	size_t at = find_context(KIND_HIP_RUNTIME_API, operation_of(launch));
	uint64_t spent_ns = 0;

	for (uint32_t done = 0; done < count; done += TIMED_AT_ONCE) {
		struct timed timed = make_timed(at, launch, payload);
		uint64_t external[TIMED_AT_ONCE];

		if (launch->is_unseen) {
			timed.callback = ignore;
			timed.request = ignore_request;
		}
		spent_ns += time_callbacks(&timed, external);
		for (uint32_t i = 0; i < TIMED_AT_ONCE && !launch->is_unseen; i++) {
			asked = &external[i];
			dispatch_all(launch, timed.enter[i].internal);
		}
		asked = NULL;
	}
	return spent_ns;
}

FAKE_EXPORT void fake_sdk_launch_kernel(const char *name, uint64_t duration_ns)
{
	fake_launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = name,
					  .records = 1,
					  .start_ns = 1000,
					  .end_ns = 1000 + duration_ns});
}

static void copy_kernel(const struct fake_copy *copy, uint64_t internal)
{
	dispatch(&(struct fake_launch){.device = copy->device,
				       .start_ns = copy->start_ns,
				       .end_ns = copy->end_ns,
				       .config = {.grid = {1, 1, 1}, .block = {64, 1, 1}}},
		 copy->kernel, internal, 1);
}

static void copy_record(const struct fake_copy *copy, uint64_t internal)
{
	uint64_t gpu = 0xa1 + copy->device;
	bool is_from_host = copy->operation == SDK_COPY_HOST_TO_DEVICE;
	struct sdk_memory_copy record = {
		.head = {.operation = (int)copy->operation,
			 .start_ns = copy->start_ns,
			 .end_ns = copy->end_ns},
		.to_agent = copy->operation == SDK_COPY_DEVICE_TO_HOST ? 0xa0 : gpu,
		.from_agent = is_from_host ? 0xa0 : gpu,
		.bytes = copy->bytes,
	};

	if (configure_sees_hip() && configure_sees_queues())
		complete(KIND_MEMORY_COPY, internal, &record, sizeof(record), 1);
}

FAKE_EXPORT uint64_t fake_copy(const struct fake_copy *copy)
{
	uint64_t stream = copy->stream ? amd_stream(copy->stream) : 0;
	uint64_t arguments[8] = {0, 0, copy->bytes, stream, stream};
	struct call call;

	begin(&call, KIND_HIP_RUNTIME_API, copy->call, arguments, 8);
	for (uint32_t i = 0; !copy->result && i < (copy->records ? copy->records : 1); i++) {
		if (copy->operation)
			copy_record(copy, call.internal);
		else
			copy_kernel(copy, call.internal);
	}
	end(&call, copy->result);
	return call.internal;
}

/* ------------------------------------------------------------------ controls */

FAKE_SETTER(sdk_queues_exist, bool, queues_are_old)
FAKE_SETTER(sdk_defer, bool, is_deferring)
FAKE_SETTER(sdk_extra_dispatches, uint32_t, extra)

FAKE_EXPORT void fake_record(const void *record, size_t bytes)
{
	for (size_t i = 0; i < FAKE_CONTEXTS; i++) {
		struct fake_service *service = &contexts[i].buffers[KIND_KERNEL_DISPATCH];

		if (!atomic_load(&contexts[i].is_started) || !service->is_on)
			continue;
		buffers_add(service->buffer, (struct sdk_context){i + 1}, SDK_CATEGORY_TRACING, 99,
			    record, bytes);
		buffers_add(service->buffer, (struct sdk_context){i + 1}, 7, 1, record, bytes);
	}
}

FAKE_EXPORT bool fake_is_idle(void)
{
	return buffers_are_empty();
}
