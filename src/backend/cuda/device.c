/* CUDA devices and their properties, from the driver. */
#include <stdatomic.h>
#include <stdio.h>

#include "backend/cuda/cuda.h"
#include "record/store/devices.h"

#define ORDINAL_MAX 256u

static uint64_t attribute(const struct cupti_api *api, int device, int which)
{
	int value = 0;

	if (api->cuDeviceGetAttribute(&value, which, device) != 0 || value < 0)
		return 0;
	return (uint64_t)value;
}

static uint32_t add_device(const struct cupti_api *api, uint32_t ordinal)
{
	struct device device = {.type = "CUDA", .id = ordinal};
	int handle;

	if (api->cuDeviceGet(&handle, (int)ordinal) == 0) {
		snprintf(device.arch, sizeof(device.arch), "%u",
			 (unsigned)(attribute(api, handle, CUDA_ATTRIBUTE_CC_MAJOR) * 10 +
				    attribute(api, handle, CUDA_ATTRIBUTE_CC_MINOR)));
		api->cuDeviceGetName(device.name, sizeof(device.name), handle);
		device.clock_khz = attribute(api, handle, CUDA_ATTRIBUTE_CLOCK_RATE);
		device.memory_clock_khz = attribute(api, handle, CUDA_ATTRIBUTE_MEMORY_CLOCK_RATE);
		device.bus_width_bits = attribute(api, handle, CUDA_ATTRIBUTE_BUS_WIDTH);
		device.processors = attribute(api, handle, CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	}
	return devices_add(&device);
}

uint32_t devices_of_cuda(const struct cupti_api *api, uint32_t ordinal)
{
	static _Atomic uint32_t known[ORDINAL_MAX]; /* id + 1 */
	uint32_t id;

	if (ordinal >= ORDINAL_MAX)
		return DEVICE_NONE;
	id = atomic_load_explicit(&known[ordinal], memory_order_relaxed);
	if (!id) {
		id = add_device(api, ordinal) + 1;
		atomic_store_explicit(&known[ordinal], id, memory_order_relaxed);
	}
	return id - 1;
}
