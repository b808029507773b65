/* Binding the driver. See driver.h. */
#include "backend/instrument/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "record/devices.h"
#include "record/record.h"

struct driver driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int bind_all(void *library, struct proton_error *err)
{
	static const struct {
		const char *name;
		size_t offset;
	} names[] = {
#define DRIVER_NAME(name, arguments) {#name, offsetof(struct driver, name)},
		DRIVER_FUNCTIONS(DRIVER_NAME)
#undef DRIVER_NAME
	};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		void *symbol = dlsym(library, names[i].name);

		if (!symbol)
			return err_set(err, PROTON_E_UNSUPPORTED,
				       "instrumentation needs a newer driver: its libcuda.so.1 "
				       "lacks %s",
				       names[i].name);
		memcpy((char *)&driver + names[i].offset, &symbol, sizeof(symbol));
	}
	return PROTON_OK;
}

static void bind_for_kernels(void *library)
{
	static const struct {
		const char *name;
		size_t offset;
	} names[] = {
#define DRIVER_NAME(name, arguments) {#name, offsetof(struct driver, name)},
		DRIVER_KERNEL_FUNCTIONS(DRIVER_NAME)
#undef DRIVER_NAME
	};
	bool has_all = true;

	for (size_t i = 0; i < ARRAY_LENGTH(names) && has_all; i++)
		has_all = dlsym(library, names[i].name) != NULL;
	for (size_t i = 0; i < ARRAY_LENGTH(names) && has_all; i++) {
		void *symbol = dlsym(library, names[i].name);

		memcpy((char *)&driver + names[i].offset, &symbol, sizeof(symbol));
	}
}

int driver_bind(struct proton_error *err)
{
	static bool is_bound;
	const char *named = getenv("PROTON_CUDA_PATH"); /* for tests: a libcuda of one's own */
	void *library;
	int status = PROTON_OK;

	pthread_mutex_lock(&lock);
	if (!is_bound) {
		library = dlopen(named && *named ? named : "libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
		if (!library)
			status = err_set(err, PROTON_E_NOLIB,
					 "instrumentation needs an NVIDIA GPU: cannot load the "
					 "driver's libcuda.so.1: %s",
					 dlerror());
		else
			status = bind_all(library, err);
		if (status == PROTON_OK)
			bind_for_kernels(library);
		is_bound = status == PROTON_OK;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

int driver_enter(void)
{
	int mode = DRIVER_CAPTURE_RELAXED;

	record_own_work_begin();
	return driver.cuThreadExchangeStreamCaptureMode(&mode) == 0 ? mode : -1;
}

void driver_leave(int mode)
{
	record_own_work_end();
	if (mode >= 0)
		driver.cuThreadExchangeStreamCaptureMode(&mode);
}

static uint64_t attribute(int device, int which)
{
	int value = 0;

	return driver.cuDeviceGetAttribute(&value, which, device) == 0 && value > 0
		       ? (uint64_t)value
		       : 0;
}

uint32_t driver_device(uint64_t *clock_khz)
{
	struct device device = {.type = "CUDA"};
	int handle = 0;

	*clock_khz = 0;
	if (driver.cuCtxGetDevice(&handle) != 0 || handle < 0)
		return DEVICE_NONE;
	device.id = (uint32_t)handle; /* a CUdevice is the ordinal */
	snprintf(device.arch, sizeof(device.arch), "%u",
		 (unsigned)(attribute(handle, DRIVER_ATTRIBUTE_CC_MAJOR) * 10 +
			    attribute(handle, DRIVER_ATTRIBUTE_CC_MINOR)));
	driver.cuDeviceGetName(device.name, sizeof(device.name), handle);
	device.clock_khz = attribute(handle, DRIVER_ATTRIBUTE_CLOCK_RATE);
	device.memory_clock_khz = attribute(handle, DRIVER_ATTRIBUTE_MEMORY_CLOCK_RATE);
	device.bus_width_bits = attribute(handle, DRIVER_ATTRIBUTE_BUS_WIDTH);
	device.processors = attribute(handle, DRIVER_ATTRIBUTE_PROCESSORS);
	*clock_khz = device.clock_khz;
	return devices_add(&device);
}
