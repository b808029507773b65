/* Kinds and operations of the fake librocprofiler-sdk, by name and number. */
#include <stdlib.h>
#include <string.h>

#include "backend/amd/hip_graphs.h"
#include "fake/sdk_entries.h"
#include "fake/sdk_state.h"

/* As in 1.2.1; later kinds are appended. */
static const struct {
	const char *name;
	int numbers[LISTS]; /* -1: not in this list */
} kinds[KINDS] = {
	[KIND_NONE] = {"NONE", {0, 0, 0}},
	[KIND_HIP_RUNTIME_API] = {"HIP_RUNTIME_API", {5, 5, 5}},
	[KIND_MARKER_CORE_API] = {"MARKER_CORE_API", {7, 7, 7}},
	[KIND_CODE_OBJECT] = {"CODE_OBJECT", {10, -1, -1}},
	[KIND_HIP_GRAPH] = {"HIP_GRAPH", {22, -1, -1}},
	[KIND_MEMORY_COPY] = {"MEMORY_COPY", {13, 10, 10}},
	[KIND_KERNEL_DISPATCH] = {"KERNEL_DISPATCH", {12, 11, 11}},
};

#define NAME_OF(name, ...) #name,

/* The place in the list is the number. The name of one of the first may be refused: faults.c. */
static const char *const hip_calls[] = {
	"hipApiName",
	"hipArray3DCreate",
	"hipMalloc",
	"hipStreamCreate",
	"hipLaunchHostFunc",
#define L NAME_OF
#define G NAME_OF
#define M NAME_OF
#define D NAME_OF
#include "backend/amd/hip_calls.def"
	HIP_GRAPH_CALLS(NAME_OF) "hipLaunchCooperativeKernel_spt",
	"hipLaunchKernel_spt",
	"hipGraphLaunch_spt",
};

static const char *const marker_calls[] = {
	"roctxMarkA",       "roctxRangePushA", "roctxRangePop",
	"roctxRangeStartA", "roctxRangeStop",  "roctxGetThreadId",
};

/* rocprofiler-sdk, lib/rocprofiler-sdk/hip/graph.cpp (rocm-systems 3d3121e0). */
static const char *const graph_operations[] = {
	"HIP_GRAPH_OPERATION_NONE",
	"HIP_GRAPH_OPERATION_EXEC_CREATE",
	"HIP_GRAPH_OPERATION_EXEC_DESTROY",
	"HIP_GRAPH_OPERATION_EXEC_LAUNCH",
};

static const struct {
	const char *const *names;
	size_t count;
} operations[KINDS] = {
	[KIND_HIP_RUNTIME_API] = {hip_calls, sizeof(hip_calls) / sizeof(hip_calls[0])},
	[KIND_MARKER_CORE_API] = {marker_calls, sizeof(marker_calls) / sizeof(marker_calls[0])},
	[KIND_HIP_GRAPH] = {graph_operations, 4},
};

static bool is_renumbered(void)
{
	return getenv("FAKE_SDK_RENUMBER");
}

int names_number(enum fake_list list, enum fake_kind kind)
{
	int number = kinds[kind].numbers[list];

	if (kind == KIND_HIP_GRAPH && configure_version() < 10300)
		return -1;
	return number > 0 && is_renumbered() ? 60 - number : number;
}

enum fake_kind names_kind(enum fake_list list, int number)
{
	for (int kind = 1; kind < KINDS; kind++)
		if (names_number(list, (enum fake_kind)kind) == number)
			return (enum fake_kind)kind;
	return KIND_NONE;
}

size_t names_operation_count(enum fake_kind kind)
{
	return operations[kind].count;
}

/* The place of an operation is its number, or counted from the end. */
static size_t place_of(enum fake_kind kind, size_t number)
{
	return is_renumbered() ? operations[kind].count - 1 - number : number;
}

int names_operation(enum fake_kind kind, const char *name)
{
	for (size_t i = 0; i < operations[kind].count; i++)
		if (strcmp(operations[kind].names[place_of(kind, i)], name) == 0)
			return (int)i;
	return -1;
}

static int query(enum fake_list list, int number, const char **name, uint64_t *length)
{
	enum fake_kind kind = names_kind(list, number);

	if (number && kind == KIND_NONE)
		return SDK_E_KIND_NOT_FOUND;
	if (name)
		*name = kinds[kind].name;
	if (length)
		*length = strlen(kinds[kind].name);
	return SDK_OK;
}

int fake_query_callback_tracing_kind_name(int kind, const char **name, uint64_t *length)
{
	return query(LIST_CALLBACK, kind, name, length);
}

int fake_query_buffer_tracing_kind_name(int kind, const char **name, uint64_t *length)
{
	return query(LIST_BUFFER, kind, name, length);
}

int fake_query_external_correlation_id_request_kind_name(int kind, const char **name,
							 uint64_t *length)
{
	return query(LIST_REQUEST, kind, name, length);
}

int fake_iterate_callback_tracing_kind_operations(int number, sdk_operation_fn callback, void *data)
{
	enum fake_kind kind = names_kind(LIST_CALLBACK, number);

	if (kind == KIND_NONE)
		return SDK_E_KIND_NOT_FOUND;
	for (size_t i = 0; i < operations[kind].count; i++)
		if (callback(number, (int32_t)i, data) != 0)
			break;
	return SDK_OK;
}

int fake_query_callback_tracing_kind_operation_name(int number, int32_t operation,
						    const char **name, uint64_t *length)
{
	enum fake_kind kind = names_kind(LIST_CALLBACK, number);

	if (kind == KIND_NONE)
		return SDK_E_KIND_NOT_FOUND;
	if (operation < 0 || (size_t)operation >= operations[kind].count)
		return SDK_E_OPERATION_NOT_FOUND;
	if (name)
		*name = operations[kind].names[place_of(kind, (size_t)operation)];
	if (length)
		*length = strlen(operations[kind].names[place_of(kind, (size_t)operation)]);
	return SDK_OK;
}
