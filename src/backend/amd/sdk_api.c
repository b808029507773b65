/* librocprofiler-sdk: its functions, errors, contexts, and kinds and operations by name. */
#include "backend/amd/sdk_backend.h"

#include "backend/amd/hip_calls.h"
#include "backend/amd/hip_graphs.h"
#include "backend/gpu/launches.h"
#include "base/array.h"
#include "base/mutex.h"
#include "driver/amd_library.h"
#include "driver/library_search.h"

#define VERSION_MIN 10000u
#define KINDS_MAX 128

struct sdk_api sdk;
_Atomic enum sdk_state sdk_state;

int sdk_api_check_version(uint32_t version, struct proton_error *err)
{
	const char *path = amd_library_path(AMD_ROCPROFILER_SDK);

	if (version >= VERSION_MIN)
		return PROTON_OK;
	return err_set(err, PROTON_E_VERSION,
		       "%s is rocprofiler-sdk %u.%u.%u; 1.0 or later is required, which ROCm 7.0 "
		       "has; update ROCm, or use the backend \"roctracer\"",
		       path ? path : "the library", version / 10000, version / 100 % 100,
		       version % 100);
}

static int load_sdk(struct proton_error *err)
{
	static const struct function functions[] = {
#define O(name, args) {"rocprofiler_" #name, offsetof(struct sdk_api, name), 0},
#define V(name, args) {"rocprofiler_" #name, offsetof(struct sdk_api, name), 1},
#include "backend/amd/sdk_symbols.def"
#undef V
	};
	void *library = amd_library_open(AMD_ROCPROFILER_SDK, err);
	uint32_t version[3] = {1, 0, 0};
	int status = PROTON_OK;

	if (!library)
		return PROTON_E_NOLIB;
	functions_bind(library, functions, ARRAY_LENGTH(functions), &sdk);
	if (sdk.get_version && sdk.get_version(&version[0], &version[1], &version[2]) == SDK_OK)
		status = sdk_api_check_version(version[0] * 10000 + version[1] * 100 + version[2],
					       err);
	const char *missing = functions_missing(functions, ARRAY_LENGTH(functions), &sdk, 1);
	if (status == PROTON_OK && missing)
		status = err_set(err, PROTON_E_VERSION,
				 "%s does not provide %s; it is older than ROCm 7.0",
				 amd_library_path(AMD_ROCPROFILER_SDK), missing);
	return status;
}

int sdk_api_load(struct proton_error *err)
{
	static struct functions_once once = {.lock = PTHREAD_MUTEX_INITIALIZER};

	return functions_load_once(&once, load_sdk, err);
}

int sdk_api_status(int status, const char *call, struct proton_error *err)
{
	static const struct {
		int status, ours;
		const char *text;
	} texts[] = {
		{SDK_E_CONFIGURATION_LOCKED, PROTON_E_STATE,
		 "rocprofiler-sdk was initialized for another tool (torch.profiler, XLA) before "
		 "Proton could register, and versions before 1.3.2 take tools only once; import "
		 "Proton first, run the program with the command `proton`, or update ROCm"},
		{SDK_E_FINALIZED, PROTON_E_STATE,
		 "rocprofiler-sdk has ended, because the program is exiting; end sessions before"},
		{SDK_E_PERMISSION_DENIED, PROTON_E_PERMISSION,
		 "the driver does not permit profiling; add the user to the groups video and "
		 "render"},
	};

	if (status == SDK_OK)
		return PROTON_OK;
	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
		if (texts[i].status == status)
			return err_set(err, texts[i].ours, "%s [%s: status %d]", texts[i].text,
				       call, status);
	return err_set(err, PROTON_E_IO, "%s failed: status %d of rocprofiler-sdk", call, status);
}

/* ------------------------------------------------------------------ kinds and operations */

struct sdk_kinds sdk_kinds;
struct sdk_call_info sdk_calls[SDK_OPERATION_MAX];

static const struct {
	const char *name;
	uint8_t kind;      /* enum sdk_call_kind */
	uint8_t arguments; /* enum hip_arguments */
	uint8_t unit;
	uint16_t stream; /* if there is a unit */
} known[] = {
#define L(name, arguments, records) {#name, SDK_CALL_LAUNCH, arguments, 0, 0},
#define G(name) {#name, SDK_CALL_GRAPH_LAUNCH, ARGUMENTS_GRAPH, 0, 0},
#define M(name, records, stream, unit) {#name, SDK_CALL_MEMORY, ARGUMENTS_NONE, unit, stream},
#define D(name)
#include "backend/amd/hip_calls.def"
};

typedef int (*kind_name_fn)(int kind, const char **name, uint64_t *length);

static int find_kind(const char *wanted, kind_name_fn query)
{
	const char *name;

	for (int kind = 1; kind < KINDS_MAX; kind++)
		if (query(kind, &name, NULL) == SDK_OK && name && strcmp(name, wanted) == 0)
			return kind;
	return SDK_KIND_NONE;
}

/* "_spt": the same call, with the thread's default stream in the place of the legacy one. */
static bool is_named(const char *name, const char *known_name)
{
	size_t length = strlen(known_name);

	return strncmp(name, known_name, length) == 0 &&
	       (!name[length] || strcmp(name + length, "_spt") == 0);
}

static struct sdk_call_info info_of(const char *name)
{
	struct sdk_call_info info = {.stream = -1, .bytes = -1};

	info.graph = (uint8_t)hip_graphs_call(name);
	if (info.graph != HIP_GRAPH_CALL_NONE)
		info.kind = SDK_CALL_GRAPH;
	else if (strncmp(name, "hipMemcpy", strlen("hipMemcpy")) == 0 ||
		 strncmp(name, "hipMemset", strlen("hipMemset")) == 0)
		info.kind = SDK_CALL_MEMORY; /* unless it is known, without arguments */
	for (size_t i = 0; i < ARRAY_LENGTH(known) && info.kind != SDK_CALL_GRAPH; i++) {
		if (!is_named(name, known[i].name))
			continue;
		info.kind = known[i].kind;
		info.is_pointer = hip_layouts[known[i].arguments].is_pointer;
		info.stream = hip_layouts[known[i].arguments].sdk_stream;
		info.unit = known[i].unit;
		if (info.unit)
			info.bytes = 16;
		if (info.unit && known[i].stream != NO_STREAM)
			info.stream = (int8_t)known[i].stream;
	}
	return info;
}

/* NULL: it has none. */
static const char *name_of(int kind, int32_t operation)
{
	const char *name = NULL;
	int result = sdk.query_callback_tracing_kind_operation_name(kind, operation, &name, NULL);

	return result == SDK_OK ? name : NULL;
}

static int note_call(int kind, int32_t operation, void *data)
{
	const char *name = name_of(kind, operation);

	if (name && operation >= 0 && (uint32_t)operation < SDK_OPERATION_MAX)
		sdk_calls[operation] = info_of(name);
	return 0;
}

static int refuse_library(const char *what, const char *lacking, struct proton_error *err)
{
	return err_set(err, PROTON_E_VERSION,
		       "this version of rocprofiler-sdk does not report %s%s; update ROCm", what,
		       lacking);
}

/* Without these the library would be asked for all calls of HIP, and none would be understood. */
static int find_calls(struct proton_error *err)
{
	TRY(SDK_CALL(err, iterate_callback_tracing_kind_operations, sdk_kinds.hip, note_call,
		     NULL));
	for (uint32_t i = 0; i < SDK_OPERATION_MAX; i++)
		if (sdk_calls[i].kind == SDK_CALL_LAUNCH)
			return PROTON_OK;
	return refuse_library("any call of HIP ", "that launches a kernel", err);
}

int sdk_kinds_find(struct proton_error *err)
{
	kind_name_fn callbacks = sdk.query_callback_tracing_kind_name;
	kind_name_fn buffers = sdk.query_buffer_tracing_kind_name;
	kind_name_fn requests = sdk.query_external_correlation_id_request_kind_name;
	const struct {
		const char *name;
		int *number;
		kind_name_fn query;
		bool is_needed;
		int number_of_1_0; /* and of 1.2, which cannot be asked */
	} kinds[] = {
		{"HIP_RUNTIME_API", &sdk_kinds.hip, callbacks, true, 0},
		{"MARKER_CORE_API", &sdk_kinds.marker, callbacks, false, 0},
		{"CODE_OBJECT", &sdk_kinds.code_object, callbacks, true, 0},
		{"HIP_GRAPH", &sdk_kinds.graph, callbacks, false, 0},
		{"KERNEL_DISPATCH", &sdk_kinds.dispatch, buffers, true, 0},
		{"MEMORY_COPY", &sdk_kinds.copy, buffers, false, 0},
		{"KERNEL_DISPATCH", &sdk_kinds.request_dispatch, requests, true, 11},
		{"MEMORY_COPY", &sdk_kinds.request_copy, requests, false, 10},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
		*kinds[i].number = kinds[i].query ? find_kind(kinds[i].name, kinds[i].query)
						  : kinds[i].number_of_1_0;
		if (*kinds[i].number == SDK_KIND_NONE && kinds[i].is_needed)
			return refuse_library(kinds[i].number_of_1_0 ? "requests of " : "",
					      kinds[i].name, err);
	}
	return find_calls(err);
}

size_t sdk_kinds_calls(bool of_memory, int32_t *operations, size_t capacity)
{
	size_t count = 0;

	for (uint32_t i = 0; i < SDK_OPERATION_MAX && count < capacity; i++)
		if (sdk_calls[i].kind != SDK_CALL_OTHER &&
		    (sdk_calls[i].kind == SDK_CALL_MEMORY) == of_memory)
			operations[count++] = (int32_t)i;
	return count;
}

/* An operation that is searched by the end of its name: versions differ in the beginning. */
struct wanted_operation {
	const char *name;
	int32_t number;
};

static int compare_operation(int kind, int32_t operation, void *data)
{
	struct wanted_operation *wanted = data;
	const char *name = name_of(kind, operation);
	size_t length = name ? strlen(name) : 0;

	if (length < strlen(wanted->name) ||
	    strcmp(name + length - strlen(wanted->name), wanted->name) != 0)
		return 0;
	wanted->number = operation;
	return 1;
}

int32_t sdk_kinds_operation(int kind, const char *name)
{
	struct wanted_operation wanted = {name, -1};

	if (kind != SDK_KIND_NONE)
		sdk.iterate_callback_tracing_kind_operations(kind, compare_operation, &wanted);
	return wanted.number;
}

/* ------------------------------------------------------------------ contexts */

struct sdk_contexts sdk_contexts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next one */
static bool is_profiling;
static _Atomic bool orphan_was_stopped;

int sdk_contexts_start_profiling(struct proton_error *err)
{
	int status = PROTON_OK;

	MUTEX_HOLD(&lock);
	if (!is_profiling)
		status = SDK_CALL(err, start_context, sdk_contexts.profiling);
	is_profiling = status == PROTON_OK;
	return status;
}

int sdk_contexts_start_memory(struct proton_error *err)
{
	static bool is_started; /* set_memory() has one caller at a time */
	int status = PROTON_OK;

	if (!atomic_load(&sdk_contexts.has_memory))
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "this version of rocprofiler-sdk does not report memory copies; "
			       "update ROCm, or start the session without them");
	if (!is_started)
		status = SDK_CALL(err, start_context, sdk_contexts.memory);
	is_started = status == PROTON_OK;
	return status;
}

int sdk_contexts_flush(void)
{
	int second = SDK_OK;

	if (sdk_state_now() != SDK_ON && sdk_state_now() != SDK_OFF)
		return SDK_OK;
	int result = sdk.flush_buffer(sdk_contexts.dispatches);
	if (atomic_load(&sdk_contexts.has_memory))
		second = sdk.flush_buffer(sdk_contexts.copies);
	if (result == SDK_OK || result == SDK_E_BUFFER_BUSY)
		result = second;
	/* Busy: it is being flushed. Final: all records have been delivered. */
	return result == SDK_E_BUFFER_BUSY || result == SDK_E_FINALIZED ? SDK_OK : result;
}

void sdk_contexts_stop_orphan(void)
{
	if (atomic_exchange(&orphan_was_stopped, true))
		return;
	sdk.stop_context(sdk_contexts.profiling);
	if (atomic_load(&sdk_contexts.has_memory))
		sdk.stop_context(sdk_contexts.memory);
}
