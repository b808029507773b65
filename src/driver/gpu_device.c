/* GPUs and their properties. */

#include <stdatomic.h>
#include <stdio.h>

#include "driver/driver.h"
#include "driver/hip_driver.h"
#include "record/store/devices.h"

static uint64_t attribute(const struct driver *from, int device, int which)
{
	int value = 0;

	return from->cuDeviceGetAttribute(&value, which, device) == 0 && value > 0 ? (uint64_t)value
										   : 0;
}

/* Which GPU of the machine it is, however CUDA_VISIBLE_DEVICES numbers them. */
static void identify(const struct driver *from, int handle, struct device *device)
{
	unsigned char id[16];

	if (from->cuDeviceGetPCIBusId &&
	    from->cuDeviceGetPCIBusId(device->pci, sizeof(device->pci), handle) != 0)
		device->pci[0] = '\0';
	if (!from->cuDeviceGetUuid || from->cuDeviceGetUuid(id, handle) != 0)
		return;
	snprintf(device->uuid, sizeof(device->uuid),
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0],
		 id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11],
		 id[12], id[13], id[14], id[15]);
}

static uint32_t add_device(const struct driver *from, bool is_hip, uint32_t ordinal)
{
	struct device device = {.id = ordinal};
	int handle = (int)ordinal; /* a CUdevice is the ordinal */

	snprintf(device.type, sizeof(device.type), "%s", is_hip ? "HIP" : "CUDA");
	if (is_hip)
		hip_driver_arch(handle, device.arch, sizeof(device.arch));
	else
		snprintf(device.arch, sizeof(device.arch), "%u",
			 (unsigned)(attribute(from, handle, DRIVER_ATTRIBUTE_CC_MAJOR) * 10 +
				    attribute(from, handle, DRIVER_ATTRIBUTE_CC_MINOR)));
	from->cuDeviceGetName(device.name, sizeof(device.name), handle);
	device.clock_khz = attribute(from, handle, DRIVER_ATTRIBUTE_CLOCK_RATE);
	device.memory_clock_khz = attribute(from, handle, DRIVER_ATTRIBUTE_MEMORY_CLOCK_RATE);
	device.bus_width_bits = attribute(from, handle, DRIVER_ATTRIBUTE_BUS_WIDTH);
	device.processors = attribute(from, handle, DRIVER_ATTRIBUTE_PROCESSORS);
	identify(from, handle, &device);
	return devices_add(&device);
}

static uint32_t find_device(const struct driver *from, bool is_hip, uint32_t ordinal)
{
	static _Atomic uint32_t known[2][DEVICE_MAX]; /* id + 1 */

	if (ordinal >= DEVICE_MAX)
		return DEVICE_NONE;
	uint32_t id = atomic_load_explicit(&known[is_hip][ordinal], memory_order_relaxed);
	if (!id) {
		id = add_device(from, is_hip, ordinal) + 1;
		atomic_store_explicit(&known[is_hip][ordinal], id, memory_order_relaxed);
	}
	return id - 1;
}

uint32_t gpu_device_of_cuda(uint32_t ordinal)
{
	return find_device(&libcuda, false, ordinal);
}

uint32_t gpu_device_of_hip(uint32_t ordinal)
{
	return find_device(&libhip, true, ordinal);
}

uint32_t gpu_device_here(void)
{
	int device = 0;

	if (driver.cuCtxGetDevice(&device) != 0 || device < 0)
		return DEVICE_NONE;
	return find_device(&driver, driver_is_hip(), (uint32_t)device);
}

uint64_t gpu_device_timer_khz(void)
{
	int device = 0;

	if (!driver_is_hip())
		return 1000000; /* %globaltimer counts ns */
	return hip_driver_timer_khz(driver.cuCtxGetDevice(&device) == 0 ? device : 0);
}
