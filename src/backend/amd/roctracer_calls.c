/* HIP calls that launch or copy: their numbers and arguments. */
#include "backend/amd/roctracer_calls.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/amd/hip_graphs.h"
#include "base/array.h"

#define NO_STREAM UINT16_MAX
#define NUMBER_MAX 4096u /* HIP has about 450 calls */

static struct roctracer_call calls[] = {
#define L(call, its_arguments, its_records)                                                        \
	{.name = #call, .kind = CALL_LAUNCH, .arguments = its_arguments, .records = its_records},
#define G(call)                                                                                    \
	{.name = #call, .kind = CALL_GRAPH, .arguments = ARGUMENTS_GRAPH, .records = LAUNCH_MANY},
#define M(call, its_records, its_stream)                                                           \
	{.name = #call, .kind = CALL_MEMORY, .records = its_records, .stream = its_stream},
#define OF_GRAPH(call, its_call) {.name = #call, .kind = CALL_OF_GRAPH, .graph_call = its_call},
#include "backend/amd/roctracer_calls.def"
#undef L
#undef G
#undef M
	HIP_GRAPH_CALLS(OF_GRAPH)
#undef OF_GRAPH
};

/* Indexes of `calls` + 1, by number. */
static _Atomic uint8_t by_number[NUMBER_MAX];

_Static_assert(ARRAY_LENGTH(calls) < UINT8_MAX, "by_number");

int roctracer_calls_find(struct proton_error *err)
{
	uint32_t launches = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
		uint32_t number = 0;
		uint32_t kind;
		int result = libroctracer.roctracer_op_code(ROCTRACER_DOMAIN_HIP_API, calls[i].name,
							    &number, &kind);

		if (result != ROCTRACER_OK && result != ROCTRACER_E_INVALID_ARGUMENT)
			return roctracer_api_error(result, "roctracer_op_code", err);
		if (result != ROCTRACER_OK || number >= NUMBER_MAX)
			number = 0; /* this version does not know the call */
		atomic_store_explicit(&calls[i].number, number, memory_order_relaxed);
		if (!number)
			continue;
		launches += calls[i].kind == CALL_LAUNCH;
		/* release: pairs with roctracer_calls_get() */
		atomic_store_explicit(&by_number[number], (uint8_t)(i + 1), memory_order_release);
	}
	return launches ? PROTON_OK
			: err_set(err, PROTON_E_UNSUPPORTED,
				  "roctracer does not know any HIP call that launches a kernel; "
				  "its version does not fit Proton");
}

const struct roctracer_call *roctracer_calls_get(uint32_t number)
{
	uint8_t index = number < NUMBER_MAX
				? atomic_load_explicit(&by_number[number], memory_order_acquire)
				: 0;

	return index ? &calls[index - 1] : NULL;
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
				callback, NULL);
	if (result == ROCTRACER_OK)
		return PROTON_OK;
	roctracer_calls_disable(is_memory);
	return roctracer_api_error(result, "roctracer_enable_op_callback", err);
}

/* ------------------------------------------------------------------ arguments */

static void set(struct launch_config *config, const uint32_t grid[3], const uint32_t block[3],
		size_t shared_bytes)
{
	for (int i = 0; i < 3; i++) {
		config->grid[i] = grid[i];
		config->block[i] = block[i];
	}
	config->dynamic_shared_bytes = (uint32_t)shared_bytes;
}

/* From work-items to blocks. */
static void set_items(struct launch_config *config, const struct roctracer_ext_launch *launch)
{
	set(config, launch->items, launch->block, launch->shared_bytes);
	for (int i = 0; i < 3; i++)
		if (launch->block[i])
			config->grid[i] =
				(uint32_t)(((uint64_t)launch->items[i] + launch->block[i] - 1) /
					   launch->block[i]);
}

#define READ(arguments)                                                                            \
	set(config_out, (arguments)->grid, (arguments)->block, (arguments)->shared_bytes)

bool roctracer_calls_read(const struct roctracer_call *call, const struct roctracer_hip_call *data,
			  struct launch_config *config_out)
{
	switch (call->arguments) {
	case ARGUMENTS_KERNEL:
		READ(&data->args.launch_kernel);
		return true;
	case ARGUMENTS_MODULE:
		READ(&data->args.module_launch);
		return true;
	case ARGUMENTS_EXT:
		set_items(config_out, &data->args.ext_launch);
		return true;
	case ARGUMENTS_COOPERATIVE:
		READ(&data->args.cooperative_launch);
		return true;
	case ARGUMENTS_DRV:
		if (data->args.drv_config)
			READ(data->args.drv_config);
		return data->args.drv_config;
	case ARGUMENTS_EXC:
		if (data->args.exc_config)
			READ(data->args.exc_config);
		return data->args.exc_config;
	default:
		return false;
	}
}

static void *stream_of(const struct roctracer_call *call, const struct roctracer_hip_call *data)
{
	void *stream = NULL;

	switch (call->arguments) {
	case ARGUMENTS_KERNEL:
		return data->args.launch_kernel.stream;
	case ARGUMENTS_MODULE:
		return data->args.module_launch.stream;
	case ARGUMENTS_EXT:
		return data->args.ext_launch.stream;
	case ARGUMENTS_COOPERATIVE:
		return data->args.cooperative_launch.stream;
	case ARGUMENTS_DRV:
		return data->args.drv_config ? data->args.drv_config->stream : NULL;
	case ARGUMENTS_EXC:
		return data->args.exc_config ? data->args.exc_config->stream : NULL;
	case ARGUMENTS_GRAPH:
		return data->args.graph_launch.stream;
	default:
		if (call->kind == CALL_MEMORY && call->stream != NO_STREAM)
			memcpy(&stream, (const char *)&data->args + call->stream, sizeof(stream));
		return stream;
	}
}

uint64_t roctracer_calls_stream(const struct roctracer_call *call,
				const struct roctracer_hip_call *data)
{
	return (uintptr_t)stream_of(call, data);
}
