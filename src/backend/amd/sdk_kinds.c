/* Kinds and operations of rocprofiler-sdk by name. */
#include "backend/amd/sdk_kinds.h"

#include <string.h>

#include "backend/amd/hip_graphs.h"
#include "backend/amd/sdk_api.h"
#include "base/array.h"

struct sdk_kinds sdk_kinds;
struct sdk_call_info sdk_calls[SDK_OPERATION_MAX];

static const struct {
	const char *name;
	struct sdk_call_info info;
} known[] = {
#define INFO(name, kind, pointer, stream, bytes, unit)                                             \
	{#name, {(kind), (pointer), (stream), (bytes), (unit), HIP_GRAPH_CALL_NONE}},
#define L(name, stream) INFO(name, SDK_CALL_LAUNCH, NONE, stream, NONE, 0)
#define P(name, pointer, stream) INFO(name, SDK_CALL_LAUNCH, pointer, stream, NONE, 0)
#define G(name, stream) INFO(name, SDK_CALL_GRAPH_LAUNCH, NONE, stream, NONE, 0)
#define M(name, stream, bytes, unit) INFO(name, SDK_CALL_MEMORY, NONE, stream, bytes, unit)
#include "backend/amd/sdk_calls.def"
#undef INFO
};

/* A kind that is searched by name. */
struct wanted {
	const char *name;
	int *number;
	int (*query)(int kind, const char **name, uint64_t *length);
};

static int compare_kind(int kind, void *data)
{
	const struct wanted *wanted = data;
	const char *name = NULL;

	if (wanted->query(kind, &name, NULL) != SDK_OK || !name || strcmp(name, wanted->name) != 0)
		return 0;
	*wanted->number = kind;
	return 1; /* ends the iteration */
}

static void find_callback(const char *name, int *number)
{
	*number = SDK_KIND_NONE;
	sdk.iterate_callback_tracing_kinds(
		compare_kind, &(struct wanted){name, number, sdk.query_callback_tracing_kind_name});
}

static void find_buffer(const char *name, int *number)
{
	*number = SDK_KIND_NONE;
	sdk.iterate_buffer_tracing_kinds(
		compare_kind, &(struct wanted){name, number, sdk.query_buffer_tracing_kind_name});
}

/* There is no iteration of these. Without the names, they have their numbers of 1.0 and 1.2. */
static int find_request(const char *name, int number)
{
	int found = SDK_KIND_NONE;

	if (!sdk.query_external_correlation_id_request_kind_name)
		return number;
	for (int kind = 1; kind < 128 && found == SDK_KIND_NONE; kind++)
		compare_kind(kind,
			     &(struct wanted){name, &found,
					      sdk.query_external_correlation_id_request_kind_name});
	return found;
}

static struct sdk_call_info info_of(const char *name)
{
	enum hip_graph_call graph = hip_graphs_call(name);

	if (graph != HIP_GRAPH_CALL_NONE)
		return (struct sdk_call_info){.kind = SDK_CALL_GRAPH, .graph = (uint8_t)graph};
	for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].info;
	if (strncmp(name, "hipMemcpy", strlen("hipMemcpy")) == 0 ||
	    strncmp(name, "hipMemset", strlen("hipMemset")) == 0)
		return (struct sdk_call_info){
			SDK_CALL_MEMORY,    SDK_NO_ARGUMENT, SDK_NO_ARGUMENT, SDK_NO_ARGUMENT, 0,
			HIP_GRAPH_CALL_NONE};
	return (struct sdk_call_info){.kind = SDK_CALL_OTHER};
}

static int note_call(int kind, int32_t operation, void *data)
{
	const char *name = NULL;

	if (operation >= 0 && (uint32_t)operation < SDK_OPERATION_MAX &&
	    sdk.query_callback_tracing_kind_operation_name(kind, operation, &name, NULL) ==
		    SDK_OK &&
	    name)
		sdk_calls[operation] = info_of(name);
	return 0;
}

/* Without these the library would be asked for all calls of HIP, and none would be understood. */
static int find_calls(struct proton_error *err)
{
	int result = sdk.iterate_callback_tracing_kind_operations(sdk_kinds.hip, note_call, NULL);

	if (result != SDK_OK)
		return sdk_api_error(result, "rocprofiler_iterate_callback_tracing_kind_operations",
				     err);
	for (uint32_t i = 0; i < SDK_OPERATION_MAX; i++)
		if (sdk_calls[i].kind == SDK_CALL_LAUNCH)
			return PROTON_OK;
	return err_set(err, PROTON_E_VERSION,
		       "this version of rocprofiler-sdk does not report any call of HIP that "
		       "launches a kernel; update ROCm");
}

int sdk_kinds_find(struct proton_error *err)
{
	static const struct {
		const char *name;
		const int *number;
	} needed[] = {
		{"HIP_RUNTIME_API", &sdk_kinds.hip},
		{"CODE_OBJECT", &sdk_kinds.code_object},
		{"KERNEL_DISPATCH", &sdk_kinds.dispatch},
		{"requests of KERNEL_DISPATCH", &sdk_kinds.request_dispatch},
	};

	find_callback("HIP_RUNTIME_API", &sdk_kinds.hip);
	find_callback("MARKER_CORE_API", &sdk_kinds.marker);
	find_callback("CODE_OBJECT", &sdk_kinds.code_object);
	find_callback("HIP_GRAPH", &sdk_kinds.graph);
	find_buffer("KERNEL_DISPATCH", &sdk_kinds.dispatch);
	find_buffer("MEMORY_COPY", &sdk_kinds.copy);
	sdk_kinds.request_dispatch = find_request("KERNEL_DISPATCH", 11);
	sdk_kinds.request_copy = find_request("MEMORY_COPY", 10);
	for (size_t i = 0; i < ARRAY_LENGTH(needed); i++)
		if (*needed[i].number == SDK_KIND_NONE)
			return err_set(err, PROTON_E_VERSION,
				       "this version of rocprofiler-sdk does not report %s; "
				       "update ROCm",
				       needed[i].name);
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
	const char *name = NULL;
	size_t length;

	if (sdk.query_callback_tracing_kind_operation_name(kind, operation, &name, NULL) !=
		    SDK_OK ||
	    !name)
		return 0;
	length = strlen(name);
	if (length < strlen(wanted->name) ||
	    strcmp(name + length - strlen(wanted->name), wanted->name) != 0)
		return 0;
	wanted->number = operation;
	return 1;
}

int32_t sdk_kinds_marker(const char *name)
{
	struct wanted_operation wanted = {name, -1};

	if (sdk_kinds.marker != SDK_KIND_NONE)
		sdk.iterate_callback_tracing_kind_operations(sdk_kinds.marker, compare_operation,
							     &wanted);
	return wanted.number;
}

int32_t sdk_kinds_graph_launch(void)
{
	struct wanted_operation wanted = {"_EXEC_LAUNCH", -1};

	if (sdk_kinds.graph != SDK_KIND_NONE)
		sdk.iterate_callback_tracing_kind_operations(sdk_kinds.graph, compare_operation,
							     &wanted);
	return wanted.number;
}
