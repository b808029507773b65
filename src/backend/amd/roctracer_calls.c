/* HIP calls that launch or copy: their numbers and arguments. */
#include "backend/amd/roctracer_calls.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/amd/hip_graphs.h"
#include "base/array.h"

static struct roctracer_call calls[] = {
#define L(call, its_arguments, its_records)                                                        \
	{.name = #call,                                                                            \
	 .kind = CALL_LAUNCH,                                                                      \
	 .arguments = its_arguments,                                                               \
	 .launch = LAUNCH_KERNEL,                                                                  \
	 .records = its_records},
#define G(call)                                                                                    \
	{.name = #call,                                                                            \
	 .kind = CALL_GRAPH,                                                                       \
	 .arguments = ARGUMENTS_GRAPH,                                                             \
	 .launch = LAUNCH_GRAPH,                                                                   \
	 .records = LAUNCH_MANY},
#define M(call, its_records, its_stream, unit)                                                     \
	{.name = #call,                                                                            \
	 .kind = CALL_MEMORY,                                                                      \
	 .launch = LAUNCH_MEMORY,                                                                  \
	 .records = its_records,                                                                   \
	 .stream = its_stream},
#define OF_GRAPH(call, its_call) {.name = #call, .kind = CALL_OF_GRAPH, .graph_call = its_call},
#define OF_DEVICE(call) {.name = #call, .kind = CALL_DEVICE},
#include "backend/amd/hip_calls.def"
	HIP_GRAPH_CALLS(OF_GRAPH) HIP_DEVICE_CALLS(OF_DEVICE)
#undef OF_GRAPH
#undef OF_DEVICE
};

int roctracer_calls_find(struct proton_error *err)
{
	uint32_t launches = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
		uint32_t number = 0;
		uint32_t kind;
		int result = libroctracer.roctracer_op_code(ROCTRACER_DOMAIN_HIP_API, calls[i].name,
							    &number, &kind);

		if (result != ROCTRACER_OK && result != ROCTRACER_E_INVALID_ARGUMENT)
			return roctracer_api_status(result, "roctracer_op_code", err);
		if (result != ROCTRACER_OK)
			number = 0; /* this version does not know the call */
		atomic_store_explicit(&calls[i].number, number, memory_order_relaxed);
		launches += number && calls[i].kind == CALL_LAUNCH;
	}
	return launches ? PROTON_OK
			: err_set(err, PROTON_E_UNSUPPORTED,
				  "roctracer does not know any HIP call that launches a kernel; "
				  "its version does not fit Proton");
}

static bool is_wanted(const struct roctracer_call *call, bool is_memory)
{
	return atomic_load_explicit(&call->number, memory_order_relaxed) &&
	       (call->kind == CALL_MEMORY) == is_memory;
}

int roctracer_calls_disable(bool is_memory)
{
	int result = ROCTRACER_OK;

	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
		int one = ROCTRACER_OK;

		if (is_wanted(&calls[i], is_memory))
			one = libroctracer.roctracer_disable_op_callback(
				ROCTRACER_DOMAIN_HIP_API,
				atomic_load_explicit(&calls[i].number, memory_order_relaxed));
		if (result == ROCTRACER_OK)
			result = one;
	}
	return result;
}

int roctracer_calls_enable(bool is_memory, roctracer_callback_fn callback, struct proton_error *err)
{
	int result = ROCTRACER_OK;

	for (size_t i = 0; i < ARRAY_LENGTH(calls) && result == ROCTRACER_OK; i++)
		if (is_wanted(&calls[i], is_memory))
			result = libroctracer.roctracer_enable_op_callback(
				ROCTRACER_DOMAIN_HIP_API,
				atomic_load_explicit(&calls[i].number, memory_order_relaxed),
				callback, &calls[i]);
	if (result != ROCTRACER_OK)
		roctracer_calls_disable(is_memory);
	return roctracer_api_status(result, "roctracer_enable_op_callback", err);
}

/* ------------------------------------------------------------------ arguments */

/* Places in the arguments of a launch, or in what their first word points to. */
static const struct layout {
	uint8_t sizes; /* grid, then block */
	uint8_t shared_bytes;
	uint8_t stream;
	bool is_known; /* the sizes are there */
	bool is_pointer;
} layouts[] = {
#define SIZED(type, grid, is_a_pointer)                                                            \
	{                                                                                          \
		offsetof(struct type, grid), offsetof(struct type, shared_bytes),                  \
			offsetof(struct type, stream), true, is_a_pointer                          \
	}
	[ARGUMENTS_KERNEL] = SIZED(roctracer_launch_kernel, grid, false),
	[ARGUMENTS_MODULE] = SIZED(roctracer_module_launch, grid, false),
	[ARGUMENTS_EXT] = SIZED(roctracer_ext_launch, items, false),
	[ARGUMENTS_COOPERATIVE] = SIZED(roctracer_cooperative_launch, grid, false),
	[ARGUMENTS_DRV] = SIZED(roctracer_drv_config, grid, true),
	[ARGUMENTS_EXC] = SIZED(roctracer_exc_config, grid, true),
#undef SIZED
	[ARGUMENTS_GRAPH] = {.stream = sizeof(void *)},
};

/* From work-items to blocks. */
static void set_blocks(struct roctracer_config *config)
{
	uint32_t sizes[6]; /* grid, block */

	memcpy(sizes, config->sizes, sizeof(sizes));
	for (int i = 0; i < 3; i++)
		if (sizes[3 + i])
			sizes[i] =
				(uint32_t)(((uint64_t)sizes[i] + sizes[3 + i] - 1) / sizes[3 + i]);
	memcpy(config->sizes, sizes, sizeof(sizes));
}

/* NULL: there are none. */
static const char *find_arguments(const struct layout *layout,
				  const struct roctracer_hip_call *data)
{
	return layout->is_pointer ? data->args.pointer : (const char *)&data->args;
}

bool roctracer_calls_read(const struct roctracer_call *call, const struct roctracer_hip_call *data,
			  struct roctracer_config *config_out)
{
	const struct layout *layout = &layouts[call->arguments];
	const char *arguments = find_arguments(layout, data);

	if (!layout->is_known || !arguments)
		return false;
	memcpy(config_out->sizes, arguments + layout->sizes, sizeof(config_out->sizes));
	memcpy(&config_out->shared_bytes, arguments + layout->shared_bytes, sizeof(uint32_t));
	if (call->arguments == ARGUMENTS_EXT)
		set_blocks(config_out);
	return true;
}

uint64_t roctracer_calls_stream(const struct roctracer_call *call,
				const struct roctracer_hip_call *data)
{
	const struct layout *layout = &layouts[call->arguments];
	const char *arguments = find_arguments(layout, data);
	uint32_t place = call->kind == CALL_MEMORY ? call->stream : layout->stream;
	uint64_t stream = 0;

	if (arguments && place && place != NO_STREAM)
		memcpy(&stream, arguments + place, sizeof(stream));
	return stream;
}

/* ------------------------------------------------------------------ kept configurations */

#define SLOTS 65536u /* launches in flight; 2 MiB, touched when used */

/* A newer launch may overwrite a slot at any time; `number` is 0 then (a sequence lock). */
static struct slot {
	_Atomic uint32_t number;
	_Atomic uint32_t shared_bytes;
	_Atomic uint64_t sizes[3];
} slots[SLOTS];

void roctracer_calls_keep(uint32_t correlation, const struct roctracer_config *config)
{
	struct slot *slot = &slots[correlation % SLOTS];

	atomic_store_explicit(&slot->number, 0, memory_order_relaxed);
	/* release: a reader of a new word does not see an old number */
	atomic_thread_fence(memory_order_release);
	for (int i = 0; i < 3; i++)
		atomic_store_explicit(&slot->sizes[i], config->sizes[i], memory_order_relaxed);
	atomic_store_explicit(&slot->shared_bytes, config->shared_bytes, memory_order_relaxed);
	/* release: pairs with the first load of roctracer_calls_find_kept() */
	atomic_store_explicit(&slot->number, correlation, memory_order_release);
}

bool roctracer_calls_find_kept(uint32_t correlation, struct launch_config *config_out)
{
	struct slot *slot = &slots[correlation % SLOTS];
	struct launch_config config = {.registers_per_thread = 0};
	uint64_t sizes[3];

	if (atomic_load_explicit(&slot->number, memory_order_acquire) != correlation)
		return false;
	for (int i = 0; i < 3; i++)
		sizes[i] = atomic_load_explicit(&slot->sizes[i], memory_order_relaxed);
	config.dynamic_shared_bytes =
		atomic_load_explicit(&slot->shared_bytes, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->number, memory_order_relaxed) != correlation)
		return false;
	memcpy(config.grid, sizes, sizeof(config.grid));
	memcpy(config.block, (const char *)sizes + sizeof(config.grid), sizeof(config.block));
	*config_out = config;
	return true;
}
