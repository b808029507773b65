/* Fake libamdhip64 for launchers: modules are not parsed; the test carries out launches. */
#include "fake/hip.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "driver/hip_abi.h"
#include "fake/fake_cupti.h"

#define VERSION 70125424 /* as hipDriverGetVersion() counts: 7.1.25424 */
#define NOT_FOUND 500
#define INVALID_VALUE 1

static fake_kernel_fn on_kernel;
static char the_module;
/* One for each load of a module, as a driver has them; so many are enough for tests. */
static char functions[1024];
static _Atomic uint32_t loaded_count;

static int is_function(const void *function)
{
	return function >= (void *)functions && function < (void *)(functions + sizeof(functions));
}

FAKE_SETTER(set_kernel, fake_kernel_fn, on_kernel)

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* HIP's are its own */

FAKE_EXPORT int hipDriverGetVersion(int *version)
{
	*version = VERSION;
	return 0;
}

FAKE_EXPORT const char *hipGetErrorString(int error)
{
	return "an error of the fake library";
}

/* Symbols by name: versioned symbols are requested without their version. */
FAKE_EXPORT int hipGetProcAddress(const char *name, void **function, int version, uint64_t flags,
				  int *status)
{
	Dl_info info;
	void *library;

	if (strcmp(name, "hipGetDeviceProperties") == 0)
		name = "hipGetDevicePropertiesR0600";
	if (!dladdr(&the_module, &info))
		return NOT_FOUND;
	library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	*function = library ? dlsym(library, name) : NULL;
	return *function ? 0 : NOT_FOUND;
}

FAKE_EXPORT int hipModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
				    void **values)
{
	*module = &the_module;
	return memcmp(image, "\177ELF", 4) == 0 ? 0 : INVALID_VALUE;
}

FAKE_EXPORT int hipModuleUnload(void *module)
{
	return module == &the_module ? 0 : INVALID_VALUE;
}

FAKE_EXPORT int hipModuleGetFunction(void **function, void *module, const char *name)
{
	*function = &functions[loaded_count++ % sizeof(functions)];
	return module == &the_module && *name ? 0 : INVALID_VALUE;
}

FAKE_EXPORT int hipFuncGetAttribute(int *value, int attribute, void *function)
{
	*value = 1024; /* registers, bytes, threads */
	return is_function(function) ? 0 : INVALID_VALUE;
}

static int memory_device;

FAKE_SETTER(set_memory_device, int, memory_device)

FAKE_EXPORT int hipPointerGetAttribute(void *data, int attribute, void *pointer)
{
	if (attribute != HIP_POINTER_DEVICE)
		*(void **)data = pointer;
	else
		*(int *)data = memory_device < 0 ? 0 : memory_device;
	return attribute == HIP_POINTER_DEVICE && memory_device < 0 ? INVALID_VALUE : 0;
}

FAKE_EXPORT int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y,
				      unsigned grid_z, unsigned block_x, unsigned block_y,
				      unsigned block_z, unsigned shared_bytes, void *stream,
				      void **parameters, void **extra)
{
	if (!is_function(function) || extra || block_y != 1 || block_z != 1)
		return INVALID_VALUE;
	if (on_kernel)
		on_kernel(grid_x * grid_y * grid_z, block_x, (uintptr_t)stream, parameters);
	return 0;
}

FAKE_EXPORT int hipModuleLaunchCooperativeKernel(void *function, unsigned grid_x, unsigned grid_y,
						 unsigned grid_z, unsigned block_x,
						 unsigned block_y, unsigned block_z,
						 unsigned shared_bytes, void *stream,
						 void **parameters)
{
	return hipModuleLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
				     shared_bytes, stream, parameters, NULL);
}

/* HIP_LAUNCH_CONFIG of hip_runtime_api.h. */
struct hip_launch_config {
	unsigned grid[3];
	unsigned block[3];
	unsigned shared_bytes;
	void *stream;
	void *attributes;
	unsigned attribute_count;
};

FAKE_EXPORT int hipDrvLaunchKernelEx(const struct hip_launch_config *config, void *function,
				     void **parameters, void **extra)
{
	return hipModuleLaunchKernel(function, config->grid[0], config->grid[1], config->grid[2],
				     config->block[0], config->block[1], config->block[2],
				     config->shared_bytes, config->stream, parameters, extra);
}
