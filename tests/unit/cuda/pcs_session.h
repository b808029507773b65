/* Sessions, launches and samples of tests of PC sampling. */
#pragma once

#include "unit/cuda/cuda_session.h"

#include "model/samples.h"

/* Contexts of the fake: a byte is the device. */
static uint8_t gpu0;
__attribute__((unused)) static uint8_t gpu0_second;
__attribute__((unused)) static uint8_t gpu1 = 1;

__attribute__((unused)) static int start_mode(const char *name, const char *mode,
					      struct proton_error *err)
{
	load_fake();
	return start_with((struct proton_session_options){.name = rec_path(name), .mode = mode},
			  err);
}

__attribute__((unused)) static int start_sampling(const char *mode)
{
	return start_options((struct proton_session_options){.mode = mode});
}

static void *context = &gpu0; /* of launches and samples */

__attribute__((unused)) static void end(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

/* A launch that ends now, in the context of the first GPU. */
static uint32_t launch_function(const char *name, void *function, uint64_t duration_ns)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL,
		.name = name,
		.context = context,
		.records = 1,
		.start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
		.end_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + duration_ns,
		.config = {.grid = {132, 1, 1}, .block = {128, 1, 1}},
		.function = function,
	});
}

__attribute__((unused)) static void take(uint64_t crc, const char *function, uint32_t offset,
					 const char *reason, uint32_t samples)
{
	fake.pcs_take(context, &(struct fake_pc){.crc = crc,
						 .function = function,
						 .offset = offset,
						 .reason = reason,
						 .samples = samples});
}

__attribute__((unused)) static int64_t value_at(const struct profile *profile, const char *path,
						const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	return value ? value->as.int64 : 0;
}

/* In each test: no context exists at the start, unless the test makes one. */
__attribute__((constructor)) static void hide_context(void)
{
	setenv("FAKE_CUDA_NO_CONTEXT", "1", 1);
}

/* The program has a context, which the thread that starts sessions does not use. */
__attribute__((unused)) static void begin_with_context(void)
{
	load_fake();
	fake.cu_init(0);
	fake.set_primary(&gpu0);
}

static _Atomic uint32_t callbacks;

__attribute__((unused)) static void count_callback(void)
{
	atomic_fetch_add(&callbacks, 1);
}

/* A graph of two kernels, captured in the scope "cap" if a session is active. */
__attribute__((unused)) static uint32_t make_graph(void)
{
	uint32_t graph = fake.graph_create();
	uint64_t token = proton_scope_enter("cap");

	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	fake.graph_capture_kernel(graph, "node");
	fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
	uint32_t exec = fake.graph_instantiate(graph);
	fake.graph_destroy(graph);
	return exec;
}
