/*
 * Support for tests of the roctracer backend alone, in addition to unit/cuda/cuda_session.h: the
 * controls of the fake that others lack, as `tracer`, and launches with all that roctracer reports.
 */
#ifndef TESTS_UNIT_AMD_ROCTRACER_SESSION_H
#define TESTS_UNIT_AMD_ROCTRACER_SESSION_H

#include "unit/cuda/cuda_session.h"

#include "fake/fake_roctracer.h"

#define FAKE_POINTER(type, name, arguments) type(*name) arguments;
static struct {
	FAKE_ROCTRACER_CONTROLS(FAKE_POINTER)
	int (*push)(const char *message);
	int (*pop)(void);
} tracer;
#undef FAKE_POINTER

/* roctracer's controls, without loading HIP. */
static void find_roctracer(void)
{
	void *roctracer = fake_open("PROTON_ROCTRACER_PATH");

	find_fake_of_amd();
#define FIND(type, name, arguments) fake_find(&tracer.name, roctracer, "fake_" #name);
	FAKE_ROCTRACER_CONTROLS(FIND)
#undef FIND
}

__attribute__((unused)) static void load_roctx(void)
{
	void *roctx = fake_open("PROTON_ROCTX_PATH");

	fake_find(&tracer.push, roctx, "roctxRangePushA");
	fake_find(&tracer.pop, roctx, "roctxRangePop");
}

static void load_tracer(void)
{
	load_fake();
	find_roctracer();
}

/* The session's id, or -1 with the error. */
static int start_with(struct proton_session_options options, struct proton_error *err)
{
	int session = -1;

	options.size = sizeof(options);
	options.backend = "roctracer";
	options.flags |= PROTON_SESSION_QUIET;
	if (!options.name)
		options.name = rec_path("a");
	return proton_start(&options, &session, err) == PROTON_OK ? session : -1;
}

/* A session "a" with these options; the test fails if it does not start. */
__attribute__((unused)) static int start_options(struct proton_session_options options)
{
	struct proton_error err = {0};
	int session;

	load_tracer();
	session = start_with(options, &err);
	if (session < 0)
		FAIL("start: %s", err.text);
	return session;
}

__attribute__((unused)) static int start_tracer(void)
{
	return start_options((struct proton_session_options){0});
}

/* A launch with one record, on the first GPU. */
__attribute__((unused)) static struct fake_hip_launch kernel(const char *name, uint64_t duration_ns)
{
	return (struct fake_hip_launch){
		.call = "hipModuleLaunchKernel",
		.name = name,
		.records = 1,
		.node = NODE_FIRST,
		.start_ns = 1000,
		.end_ns = 1000 + duration_ns,
	};
}

#endif
