/* Devices of rocprofiler-sdk's agents. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "backend/amd/sdk_backend.h"
#include "backend/gpu/launches.h"
#include "driver/amd_gpus.h"
#include "driver/driver.h"
#include "driver/hip_functions.h"
#include "record/store/devices.h"

#define GPUS_MAX 64u

/* Used only by the thread of the records. */
static struct {
	uint64_t agent;
	uint32_t device; /* DEVICE_NONE until its first record */
	int ordinal;     /* of HIP; -1: HIP does not show it */
	struct device described;
} gpus[GPUS_MAX];
static size_t gpu_count;

static _Atomic uint64_t seen; /* bits: ordinals of HIP that have had records */

/* KFD's number of the GPU is the lower half of the UUID. */
static uint64_t unique_id(const struct sdk_agent *agent)
{
	uint64_t id;

	memcpy(&id, agent->uuid, sizeof(id));
	return id;
}

static int collect(int version, const struct sdk_agent **agents, size_t count, void *data)
{
	uint64_t *ids = data;

	for (size_t i = 0; i < count && gpu_count < GPUS_MAX; i++) {
		const struct sdk_agent *agent = agents[i];
		struct device *device = &gpus[gpu_count].described;

		if (agent->size < sizeof(*agent) || agent->type != SDK_AGENT_GPU)
			continue;
		gpus[gpu_count].agent = agent->id;
		gpus[gpu_count].device = DEVICE_NONE;
		*device = (struct device){
			.type = "HIP",
			.id = agent->logical_type_id >= 0 ? (uint32_t)agent->logical_type_id : 0,
			.clock_khz = agent->max_clock_mhz * 1000ull,
			.processors = agent->compute_units,
		};
		snprintf(device->arch, sizeof(device->arch), "%s", agent->name ? agent->name : "");
		snprintf(device->name, sizeof(device->name), "%s",
			 agent->product ? agent->product : "");
		ids[gpu_count++] = unique_id(agent);
	}
	return SDK_OK;
}

/* At the first record: HIP is initialized, and the variables that select devices are final. */
static void find_gpus(void)
{
	uint64_t ids[GPUS_MAX];
	int ordinals[GPUS_MAX];

	if (sdk.query_available_agents(SDK_AGENT_VERSION_0, collect, sizeof(struct sdk_agent),
				       ids) != SDK_OK)
		return;
	amd_gpus_map_visible(ids, gpu_count, amd_gpus_hip_count(), ordinals);
	for (size_t i = 0; i < gpu_count; i++)
		gpus[i].ordinal = ordinals[i];
}

/* HIP knows more of it; but for a GPU that HIP does not show, or without HIP. */
static uint32_t describe(size_t i)
{
	uint32_t device = DEVICE_NONE;

	if (gpus[i].ordinal >= 0 && driver_load_hip(NULL) == PROTON_OK)
		device = gpu_device_of_hip((uint32_t)gpus[i].ordinal);
	if (gpus[i].ordinal >= 0 && gpus[i].ordinal < 64)
		atomic_fetch_or(&seen, 1ull << gpus[i].ordinal);
	return device == DEVICE_NONE ? devices_add(&gpus[i].described) : device;
}

uint32_t sdk_agents_device(uint64_t agent)
{
	if (!gpu_count)
		find_gpus();
	for (size_t i = 0; i < gpu_count; i++) {
		if (gpus[i].agent != agent)
			continue;
		if (gpus[i].device == DEVICE_NONE)
			gpus[i].device = describe(i);
		return gpus[i].device;
	}
	return devices_add(&(struct device){.type = "HIP", .name = "(unknown GPU)"});
}

size_t sdk_agents_count(void)
{
	int count = amd_gpus_hip_count();

	return count > 0 ? (size_t)count : 0;
}

/* ------------------------------------------------------------------ waiting */

bool sdk_agents_synchronize(void)
{
	uint64_t devices = atomic_load(&seen);
	/* Graph launches are not counted. */
	bool has_launched = launches_count() || launches_last_shared();
	bool all = true;
	int before = 0;

	if ((!devices && !has_launched) || !hip_functions_find() || !hip.hipDeviceSynchronize ||
	    !hip.hipGetDevice || !hip.hipSetDevice ||
	    hip_clear_error(hip.hipGetDevice(&before)) != 0)
		return true;
	for (int device = 0; device < 64; device++) {
		if (!(devices >> device & 1) && device != before)
			continue;
		if (hip_clear_error(hip.hipSetDevice(device)) != 0 ||
		    hip_clear_error(hip.hipDeviceSynchronize()) != 0)
			all = false;
	}
	if (hip_clear_error(hip.hipSetDevice(before)) != 0)
		all = false;
	return all;
}
