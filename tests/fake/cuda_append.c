/*
 * Fake libcuda, the part for device metrics: device memory is host memory, and the only kernel
 * appends to a ring buffer as src/backend/cuda/append_kernel.h does.
 *
 * Environment: FAKE_CUDA_FAIL, "name=code": that entry point fails with the code.
 */
#include "fake/cuda_append.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fake/cuda_calibrate.h"
#include "fake/cuda_memory.h"
#include "fake/fake_cupti.h"

#define SLOT_COUNT 131072u
#define SLOT_BYTES 32u
#define NODE_MAX 64u
#define QUEUE_MAX 4096u
#define INVALID_VALUE 1

struct append {
	uint64_t ring;
	uint64_t source;
	uint64_t id;
	uint32_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char the_context;
static fake_on_launch_fn on_launch;
static _Atomic uint64_t captured_stream;
static _Atomic int capture_status;
static bool is_queueing;
static struct append nodes[NODE_MAX];
static uint32_t node_count;
static struct append queue[QUEUE_MAX];
static uint32_t queued;
static uint64_t head;
static uint64_t lost;
static _Atomic uint32_t unsafe_calls;
static _Thread_local int mode; /* 0: the default, in which a capture forbids much */

int fake_failure(const char *name)
{
	const char *wanted = getenv("FAKE_CUDA_FAIL");
	size_t length = strlen(name);

	return wanted && strncmp(wanted, name, length) == 0 && wanted[length] == '='
		       ? atoi(wanted + length + 1)
		       : 0;
}

static int unsafe(const char *name)
{
	if (atomic_load(&capture_status) && mode != 2)
		atomic_fetch_add(&unsafe_calls, 1);
	return fake_failure(name);
}

/* ------------------------------------------------------------------ the kernel */

static void run(const struct append *append)
{
	uint8_t *ring = (uint8_t *)(uintptr_t)append->ring;
	uint8_t *slots = ring + 128;
	size_t all = SLOT_COUNT * SLOT_BYTES;
	uint64_t count = (append->bytes + 55) / 32;
	uint64_t tail = atomic_load_explicit((_Atomic uint64_t *)ring, memory_order_acquire);
	size_t offset;

	pthread_mutex_lock(&lock);
	if (head + count - tail > SLOT_COUNT) {
		atomic_store((_Atomic uint64_t *)(ring + 8), ++lost);
		pthread_mutex_unlock(&lock);
		return;
	}
	offset = head * SLOT_BYTES % all;
	for (uint32_t i = 0; i < append->bytes; i++)
		slots[(offset + 24 + i) % all] = ((const uint8_t *)(uintptr_t)append->source)[i];
	memcpy(slots + offset + 8, &append->id, 8);
	memcpy(slots + offset + 16, &append->bytes, 4);
	atomic_store_explicit((_Atomic uint64_t *)(slots + offset), head + 1, memory_order_release);
	head += count;
	pthread_mutex_unlock(&lock);
}

FAKE_EXPORT void fake_set_on_launch(fake_on_launch_fn fn)
{
	on_launch = fn;
}

FAKE_EXPORT void fake_set_capture(uint64_t stream, int status)
{
	atomic_store(&captured_stream, stream);
	if (status == 1)
		node_count = 0;
	atomic_store(&capture_status, status);
}

FAKE_EXPORT void fake_set_queueing(bool wanted)
{
	is_queueing = wanted;
}

FAKE_EXPORT void fake_run_queued(void)
{
	for (uint32_t i = 0; i < queued; i++)
		run(&queue[i]);
	queued = 0;
}

FAKE_EXPORT void fake_run_node(uint32_t node)
{
	if (node < node_count)
		run(&nodes[node]);
}

FAKE_EXPORT uint32_t fake_unsafe_calls(void)
{
	return unsafe_calls;
}

/* ------------------------------------------------------------------ the driver's calls */

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the driver's are its own */

FAKE_EXPORT int cuCtxGetCurrent(void **context)
{
	*context = getenv("FAKE_CUDA_NO_CONTEXT") ? NULL : &the_context;
	return fake_failure("cuCtxGetCurrent");
}

FAKE_EXPORT int cuCtxGetId(void *context, uint64_t *id)
{
	*id = (uintptr_t)context;
	return fake_failure("cuCtxGetId");
}

FAKE_EXPORT int cuStreamGetCtx(void *stream, void **context)
{
	*context = &the_context;
	return fake_failure("cuStreamGetCtx");
}

FAKE_EXPORT int cuStreamIsCapturing(void *stream, int *status)
{
	*status = (uintptr_t)stream == atomic_load(&captured_stream) ? atomic_load(&capture_status)
								     : 0;
	return fake_failure("cuStreamIsCapturing");
}

FAKE_EXPORT int cuThreadExchangeStreamCaptureMode(int *wanted)
{
	int old = mode;

	mode = *wanted;
	*wanted = old;
	return fake_failure("cuThreadExchangeStreamCaptureMode");
}

FAKE_EXPORT int cuModuleLoadData(void **module, const void *image)
{
	*module = fake_calibrate_module(image);
	if (!*module)
		*module = &the_context;
	return strncmp(image, ".version", 8) == 0 ? unsafe("cuModuleLoadData") : INVALID_VALUE;
}

FAKE_EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
	const char *its = module == &the_context ? "proton_append_metric" : "proton_calibrate";

	*function = module;
	return strcmp(name, its) == 0 ? unsafe("cuModuleGetFunction") : INVALID_VALUE;
}

FAKE_EXPORT int cuModuleUnload(void *module)
{
	return module && module != &the_context ? unsafe("cuModuleUnload") : INVALID_VALUE;
}

FAKE_EXPORT int cuFuncLoad(void *function)
{
	return unsafe("cuFuncLoad");
}

FAKE_EXPORT int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
	return memory && bytes && flags == 3 ? unsafe("cuMemHostRegister_v2") : INVALID_VALUE;
}

FAKE_EXPORT int cuMemHostUnregister(void *memory)
{
	return memory ? unsafe("cuMemHostUnregister") : INVALID_VALUE;
}

FAKE_EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags)
{
	*address = (uintptr_t)memory;
	return flags ? INVALID_VALUE : fake_failure("cuMemHostGetDevicePointer_v2");
}

FAKE_EXPORT int cuPointerGetAttribute(void *data, int attribute, uint64_t address)
{
	return INVALID_VALUE; /* as of memory that no context owns */
}

static int launch_calibration(uint64_t buffer)
{
	if (on_launch)
		on_launch(false, 0);
	fake_calibrate_launch(buffer);
	return 0;
}

FAKE_EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			       unsigned block_x, unsigned block_y, unsigned block_z,
			       unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
	struct append append;
	bool is_captured = capture_status && (uintptr_t)stream == atomic_load(&captured_stream);
	int code = fake_failure("cuLaunchKernel");

	if (code)
		return code;
	if (function != &the_context && !extra && grid_x == 1 && block_x == 32 && shared_bytes)
		return launch_calibration(*(uint64_t *)parameters[1]);
	append = (struct append){
		.ring = *(uint64_t *)parameters[0],
		.source = *(uint64_t *)parameters[1],
		.id = *(uint64_t *)parameters[2],
		.bytes = *(uint32_t *)parameters[3],
	};
	if (function != &the_context || extra || grid_x != 1 || grid_y != 1 || grid_z != 1 ||
	    block_x != 32 || block_y != 1 || block_z != 1 || node_count == NODE_MAX)
		return INVALID_VALUE;
	if (on_launch)
		on_launch(is_captured, node_count);
	if (is_captured) {
		nodes[node_count++] = append;
	} else if (is_queueing && queued < QUEUE_MAX) {
		queue[queued++] = append;
	} else {
		run(&append);
	}
	return 0;
}
