/*
 * PC sampling of the fake librocprofiler-sdk: GPU 0 offers stochastic and host-trap sampling, GPU 1
 * host-trap sampling only. Each takes one configuration, while the tool registers.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake/sdk_entries.h"
#include "fake/sdk_state.h"

#define GPUS 2
#define FIRST_AGENT 0xa1u
#define UNIT_CYCLES 2
#define UNIT_TIME 3
#define BUSY_INTERVAL 5000u

static struct {
	struct sdk_context context;
	struct sdk_buffer buffer;
	int method;
	uint64_t interval;
} gpus[GPUS];

static bool was_refused; /* the tool knows of the other process */

/* The library is silent about everything without it. */
static bool is_acknowledged(void)
{
	const char *beta = getenv("ROCPROFILER_PC_SAMPLING_BETA_ENABLED");

	return beta && strcmp(beta, "1") == 0;
}

static size_t configs_of(size_t gpu, struct sdk_sampling_config configs[static 2])
{
	struct sdk_sampling_config host_trap = {
		.method = SDK_METHOD_HOST_TRAP,
		.unit = UNIT_TIME,
		.min_interval = 1,
		.max_interval = 1u << 20,
	};
	struct sdk_sampling_config stochastic = {
		.method = SDK_METHOD_STOCHASTIC,
		.unit = UNIT_CYCLES,
		.min_interval = 256,
		.max_interval = 1u << 24,
		.flags = SDK_SAMPLING_POWER_OF_2,
	};

	if (getenv("FAKE_SDK_PCS_NONE"))
		return 0;
	configs[0] = host_trap;
	configs[1] = stochastic;
	if (getenv("FAKE_SDK_PCS_BUSY") && was_refused)
		configs[0].min_interval = configs[0].max_interval = BUSY_INTERVAL;
	return gpu == 0 && !was_refused ? 2 : 1;
}

int fake_query_pc_sampling_agent_configurations(uint64_t agent, sdk_sampling_fn callback,
						void *data)
{
	struct sdk_sampling_config configs[2];
	uint8_t places[2 * 128];
	size_t bytes = sizeof(configs[0]) + configure_grown();
	size_t count;

	if (!is_acknowledged())
		return SDK_E_NOT_IMPLEMENTED;
	if (agent < FIRST_AGENT || agent >= FIRST_AGENT + GPUS)
		return SDK_E_INVALID_ARGUMENT;
	count = configs_of(agent - FIRST_AGENT, configs);
	memset(places, 0xa5, sizeof(places));
	for (size_t i = 0; i < count; i++) {
		configs[i].size = bytes;
		memcpy(places + i * bytes, &configs[i], sizeof(configs[i]));
	}
	return callback((const struct sdk_sampling_config *)(const void *)places, count, data);
}

static bool is_offered(size_t gpu, int method, int unit, uint64_t interval)
{
	struct sdk_sampling_config configs[2];
	size_t count = configs_of(gpu, configs);

	for (size_t i = 0; i < count; i++) {
		bool is_power = (interval & (interval - 1)) == 0;

		if (configs[i].method == method && configs[i].unit == unit &&
		    interval >= configs[i].min_interval && interval <= configs[i].max_interval &&
		    (is_power || !(configs[i].flags & SDK_SAMPLING_POWER_OF_2)))
			return true;
	}
	return false;
}

int fake_configure_pc_sampling_service(struct sdk_context context, uint64_t agent, int method,
				       int unit, uint64_t interval, struct sdk_buffer buffer,
				       int flags)
{
	struct fake_context *of;
	int status = configure_find(context, configure_check(), &of);
	size_t gpu = agent - FIRST_AGENT;

	if (status != SDK_OK)
		return status;
	if (!is_acknowledged())
		return SDK_E_NOT_IMPLEMENTED;
	if (!buffers_exist(buffer.handle))
		return SDK_E_BUFFER_NOT_FOUND;
	if (gpu >= GPUS || flags || gpus[gpu].method)
		return SDK_E_INVALID_ARGUMENT;
	if (getenv("FAKE_SDK_PCS_BUSY") && !was_refused) {
		was_refused = true;
		return SDK_E_NOT_AVAILABLE;
	}
	if (!is_offered(gpu, method, unit, interval))
		return SDK_E_INVALID_ARGUMENT;
	gpus[gpu].context = context;
	gpus[gpu].buffer = buffer;
	gpus[gpu].method = method;
	gpus[gpu].interval = interval;
	return SDK_OK;
}

/* ------------------------------------------------------------------ controls */

FAKE_EXPORT int fake_sdk_pcs_method(uint32_t device)
{
	return gpus[device].method;
}

FAKE_EXPORT uint64_t fake_sdk_pcs_interval(uint32_t device)
{
	return gpus[device].interval;
}

static void add(const struct fake_sample *from, uint32_t kind)
{
	struct sdk_pc pc = {
		.code_object = from->code_object,
		.offset = from->address - (from->code_object ? FAKE_CODE_FIRST : 0),
	};
	struct sdk_stochastic_sample stochastic = {
		.bits = from->reason == 16 ? SDK_SAMPLE_ISSUED : 0,
		.pc = pc,
		.dispatch_id = from->dispatch_id,
		.snapshot = from->reason == 16 ? 0 : from->reason,
	};
	struct sdk_host_trap_sample host_trap = {.pc = pc, .dispatch_id = from->dispatch_id};
	uint64_t nothing = sizeof(nothing);
	const void *record = &nothing;
	size_t bytes = sizeof(nothing);

	if (kind == SDK_SAMPLE_STOCHASTIC) {
		record = &stochastic;
		bytes = sizeof(stochastic);
	} else if (kind == SDK_SAMPLE_HOST_TRAP) {
		record = &host_trap;
		bytes = sizeof(host_trap);
	}
	buffers_add(gpus[from->device].buffer.handle, gpus[from->device].context,
		    SDK_CATEGORY_PC_SAMPLING, kind, record, bytes);
}

FAKE_EXPORT uint32_t fake_sdk_sample(const struct fake_sample *sample)
{
	int method = gpus[sample->device].method;
	struct fake_context *context;

	if (!method || configure_find(gpus[sample->device].context, SDK_OK, &context) != SDK_OK ||
	    !atomic_load(&context->is_started))
		return 0;
	for (uint32_t i = 0; i < sample->count; i++)
		add(sample, sample->kind                      ? sample->kind
			    : method == SDK_METHOD_STOCHASTIC ? SDK_SAMPLE_STOCHASTIC
							      : SDK_SAMPLE_HOST_TRAP);
	return sample->count;
}
