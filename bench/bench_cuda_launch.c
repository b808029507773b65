/*
 * What a launch costs the thread that makes it, on an NVIDIA GPU: empty kernels in a C loop on the
 * driver API, in turns plain, with bare CUPTI (the floor: kernel records on, one store in the
 * launch callback, records only counted), and with a session of libproton.
 *
 * usage: bench_cuda_launch DIRECTORY [ROUNDS [LAUNCHES]]
 *
 * One line per round and side: "side<TAB>us per launch". All three run in one process: after each
 * turn nothing of it stays subscribed, which the plain turns check by the way.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libproton/proton.h>

#include "backend/cuda/cupti_api.h"
#include "base/clock.h"

#define FLOOR_SLOTS (1u << 20)
#define FLOOR_BUFFER_BYTES (4u << 20)

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry empty()\n{\nret;\n}\n";

static struct {
	int (*init)(unsigned flags);
	int (*device_get)(int *device, int ordinal);
	int (*context_retain)(void **context, int device);
	int (*context_set)(void *context);
	int (*synchronize)(void);
	int (*module_load)(void **module, const void *image);
	int (*function_get)(void **function, void *module, const char *name);
	int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		      unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
		      void **extra);
} cuda;

static void *kernel;
static const struct cupti_api *cupti;
static void *floor_subscriber;
static uint32_t floor_table[FLOOR_SLOTS];
static unsigned long floor_records;

static void die(const char *what)
{
	fprintf(stderr, "bench_cuda_launch: %s\n", what);
	exit(2);
}

static void bind(void *slot, void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol)
		die(name);
	memcpy(slot, &symbol, sizeof(symbol));
}

static void open_cuda(void)
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
	if (cuda.init(0) || cuda.device_get(&device, 0) || cuda.context_retain(&context, device) ||
	    cuda.context_set(context) || cuda.module_load(&module, ptx) ||
	    cuda.function_get(&kernel, module, "empty"))
		die("no usable GPU");
}

static double loop_us(long launches)
{
	uint64_t start_ns;
	uint64_t end_ns;

	cuda.synchronize();
	start_ns = clock_monotonic_ns();
	for (long i = 0; i < launches; i++)
		if (cuda.launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
			die("a launch failed");
	end_ns = clock_monotonic_ns();
	cuda.synchronize();
	return (double)(end_ns - start_ns) / 1e3 / (double)launches;
}

/* ------------------------------------------------------------------ the floor */

static void floor_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
	const struct cupti_callback_data *api_call = data;

	(void)user;
	(void)domain;
	(void)call;
	if (api_call->site == CUPTI_SITE_ENTER)
		floor_table[api_call->correlation_id % FLOOR_SLOTS] = api_call->correlation_id;
}

static void floor_requested(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	*buffer = aligned_alloc(4096, FLOOR_BUFFER_BYTES);
	*bytes = FLOOR_BUFFER_BYTES;
	*max_records = 0;
}

static void floor_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			    size_t valid_bytes)
{
	struct cupti_activity *record = NULL;

	(void)context;
	(void)stream;
	(void)bytes;
	while (valid_bytes &&
	       cupti->cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_OK)
		floor_records++;
	free(buffer);
}

static void floor_start(void)
{
	if (cupti->cuptiSubscribe(&floor_subscriber, floor_callback, NULL) ||
	    cupti->cuptiActivityRegisterCallbacks(floor_requested, floor_completed) ||
	    cupti->cuptiEnableCallback(1, floor_subscriber, CUPTI_DOMAIN_DRIVER_API,
				       CUPTI_CALL_LAUNCH_KERNEL) ||
	    cupti->cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL))
		die("CUPTI cannot be started");
}

static void floor_stop(void)
{
	cupti->cuptiActivityFlushAll(0);
	cupti->cuptiActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL);
	cupti->cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
	cupti->cuptiUnsubscribe(floor_subscriber);
}

/* ------------------------------------------------------------------ ours */

static double ours_us(const char *directory, long launches)
{
	char path[4096];
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = path,
		.backend = "cupti",
		.flags = PROTON_SESSION_QUIET,
	};
	struct proton_error err;
	uint64_t token;
	double us;
	int session;

	snprintf(path, sizeof(path), "%s/launch", directory);
	if (proton_start(&options, &session, &err) != PROTON_OK)
		die(err.text);
	loop_us(launches / 20);
	token = proton_scope_enter("loop");
	us = loop_us(launches);
	proton_scope_exit(token, NULL);
	if (proton_finalize(session, "hatchet", &err) != PROTON_OK)
		die(err.text);
	return us;
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	long launches = argc > 3 ? atol(argv[3]) : 200000;
	struct proton_error err;

	if (argc < 2)
		die("usage: bench_cuda_launch DIRECTORY [ROUNDS [LAUNCHES]]");
	open_cuda();
	if (cupti_api_get(&cupti, &err) != PROTON_OK)
		die(err.text);
	loop_us(launches);
	for (int i = 0; i < rounds; i++) {
		printf("plain\t%.4f\n", loop_us(launches));
		floor_start();
		loop_us(launches / 20);
		printf("floor\t%.4f\n", loop_us(launches));
		floor_stop();
		printf("ours\t%.4f\n", ours_us(argv[1], launches));
		printf("after\t%.4f\n", loop_us(launches));
		fflush(stdout);
	}
	return 0;
}
