/* Choosing and binding the GPU driver: libcuda or HIP. */
#include "backend/intra/gpu_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/intra/gpu_driver_hip.h"
#include "base/array.h"
#include "record/record.h"
#include "record/store/devices.h"

enum vendor {
	NONE,
	CUDA,
	HIP
};

struct driver driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic enum vendor bound;

static void *open_cuda(void)
{
	const char *named = getenv("PROTON_CUDA_PATH"); /* for tests: another libcuda */

	return dlopen(named && *named ? named : "libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
}

const char *driver_find(void *library, const struct driver_name *names, size_t count,
			void *functions)
{
	for (size_t i = 0; i < count; i++)
		if (!dlsym(library, names[i].name))
			return names[i].name;
	for (size_t i = 0; i < count; i++) {
		void *symbol = dlsym(library, names[i].name);

		memcpy((char *)functions + names[i].offset, &symbol, sizeof(symbol));
	}
	return NULL;
}

static int bind_cuda(struct proton_error *err)
{
#define DRIVER_NAME(name, arguments) {#name, offsetof(struct driver, name)},
	static const struct driver_name names[] = {DRIVER_FUNCTIONS(DRIVER_NAME)};
	static const struct driver_name kernel_names[] = {DRIVER_KERNEL_FUNCTIONS(DRIVER_NAME)};
#undef DRIVER_NAME
	void *library = open_cuda();
	const char *missing;

	if (!library)
		return err_set(
			err, PROTON_E_NOLIB,
			"NVIDIA kernels require the NVIDIA driver: cannot load libcuda.so.1: %s",
			dlerror());
	missing = driver_find(library, names, ARRAY_LENGTH(names), &driver);
	if (missing)
		return err_set(
			err, PROTON_E_UNSUPPORTED,
			"instrumentation requires a newer driver: libcuda.so.1 does not provide %s",
			missing);
	driver_find(library, kernel_names, ARRAY_LENGTH(kernel_names), &driver);
	return PROTON_OK;
}

int driver_look(struct proton_error *err)
{
	if (driver_hip_is_likely() || open_cuda())
		return PROTON_OK;
	return err_set(
		err, PROTON_E_NOLIB,
		"instrumentation requires a GPU: found neither an NVIDIA driver (%s) nor an AMD "
		"driver (no libamdhip64.so, no /dev/kfd)",
		dlerror());
}

int driver_bind(bool is_amd, struct proton_error *err)
{
	enum vendor wanted = is_amd ? HIP : CUDA;
	enum vendor now;
	int status = PROTON_OK;

	pthread_mutex_lock(&lock);
	now = atomic_load_explicit(&bound, memory_order_relaxed);
	if (now == NONE)
		status = is_amd ? driver_hip_bind(err) : bind_cuda(err);
	else if (now != wanted)
		status = err_set(
			err, PROTON_E_UNSUPPORTED,
			"the kernel is for %s GPUs, but this process has already instrumented "
			"kernels for %s GPUs",
			is_amd ? "AMD" : "NVIDIA", is_amd ? "NVIDIA" : "AMD");
	if (status == PROTON_OK)
		/* release: pairs with driver_is_bound */
		atomic_store_explicit(&bound, wanted, memory_order_release);
	pthread_mutex_unlock(&lock);
	return status;
}

static bool is_hip(void)
{
	return atomic_load_explicit(&bound, memory_order_acquire) == HIP;
}

bool driver_is_bound(void)
{
	return atomic_load_explicit(&bound, memory_order_acquire) != NONE;
}

void driver_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	driver_hip_forget();
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

static void describe_arch(int device, char *arch, size_t capacity)
{
	if (is_hip())
		driver_hip_arch(device, arch, capacity);
	else
		snprintf(arch, capacity, "%u",
			 (unsigned)(attribute(device, DRIVER_ATTRIBUTE_CC_MAJOR) * 10 +
				    attribute(device, DRIVER_ATTRIBUTE_CC_MINOR)));
}

uint32_t driver_device(uint64_t *clock_khz)
{
	struct device device = {0};
	int handle = 0;

	*clock_khz = 0;
	if (driver.cuCtxGetDevice(&handle) != 0 || handle < 0)
		return DEVICE_NONE;
	snprintf(device.type, sizeof(device.type), "%s", is_hip() ? "HIP" : "CUDA");
	device.id = (uint32_t)handle; /* a CUdevice is the ordinal */
	describe_arch(handle, device.arch, sizeof(device.arch));
	driver.cuDeviceGetName(device.name, sizeof(device.name), handle);
	device.clock_khz = attribute(handle, DRIVER_ATTRIBUTE_CLOCK_RATE);
	device.memory_clock_khz = attribute(handle, DRIVER_ATTRIBUTE_MEMORY_CLOCK_RATE);
	device.bus_width_bits = attribute(handle, DRIVER_ATTRIBUTE_BUS_WIDTH);
	device.processors = attribute(handle, DRIVER_ATTRIBUTE_PROCESSORS);
	*clock_khz = device.clock_khz;
	return devices_add(&device);
}

uint64_t driver_timer_khz(void)
{
	int device = 0;

	if (!is_hip())
		return 1000000; /* %globaltimer counts ns */
	return driver_hip_timer_khz(driver.cuCtxGetDevice(&device) == 0 ? device : 0);
}
