/* The CUDA driver for benchmarks. See cuda_driver.h. */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

#include "base/clock.h"
#include "measuring.h"

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry empty()\n{\nret;\n}\n";

struct cuda_driver cuda;

static void *kernel;

static void bind(void *slot, void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol)
		die(name);
	memcpy(slot, &symbol, sizeof(symbol));
}

void cuda_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *context;
	void *module;
	int device;

	if (!library)
		die("no libcuda.so.1");
	bind(&cuda.init, library, "cuInit");
	bind(&cuda.device_get, library, "cuDeviceGet");
	bind(&cuda.context_retain, library, "cuDevicePrimaryCtxRetain");
	bind(&cuda.context_set, library, "cuCtxSetCurrent");
	bind(&cuda.synchronize, library, "cuCtxSynchronize");
	bind(&cuda.module_load, library, "cuModuleLoadData");
	bind(&cuda.function_get, library, "cuModuleGetFunction");
	bind(&cuda.launch, library, "cuLaunchKernel");
	bind(&cuda.stream_create, library, "cuStreamCreate");
	bind(&cuda.capture_begin, library, "cuStreamBeginCapture_v2");
	bind(&cuda.capture_end, library, "cuStreamEndCapture");
	bind(&cuda.graph_instantiate, library, "cuGraphInstantiateWithFlags");
	bind(&cuda.graph_launch, library, "cuGraphLaunch");
	bind(&cuda.graph_exec_destroy, library, "cuGraphExecDestroy");
	bind(&cuda.graph_destroy, library, "cuGraphDestroy");
	if (cuda.init(0) || cuda.device_get(&device, 0) || cuda.context_retain(&context, device) ||
	    cuda.context_set(context) || cuda.module_load(&module, ptx) ||
	    cuda.function_get(&kernel, module, "empty"))
		die("no usable GPU");
}

void cuda_launch_empty(void *stream)
{
	if (cuda.launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL))
		die("a launch failed");
}

double cuda_launch_loop_us(long launches)
{
	uint64_t start_ns;
	uint64_t end_ns;

	cuda.synchronize();
	start_ns = clock_monotonic_ns();
	for (long i = 0; i < launches; i++)
		cuda_launch_empty(NULL);
	end_ns = clock_monotonic_ns();
	cuda.synchronize();
	return (double)(end_ns - start_ns) / 1e3 / (double)launches;
}
