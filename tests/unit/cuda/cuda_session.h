/*
 * Support for tests of a backend that records GPUs: the fake libraries (tests/fake) as `fake`, and
 * short functions for sessions and launches. PROTON_TEST_BACKEND names the backend, "cupti" without
 * it; PROTON_CUPTI_INTERFACE=2 runs the tests over CUPTI's second interface, with its entry points
 * in the place of the first one's. A test that is about some backends begins with ONLY_CUDA or
 * NOT_WITH and the reason. One that uses a control which the fake of the tested backend lacks is
 * skipped.
 */
#pragma once

#include "unit/amd/kfd_nodes.h"
#include "unit/fakes.h"
#include "unit/recorded.h"

#include "fake/amd_calls.h"
#include "fake/fake_cupti.h"
#include "fake/fake_roctracer.h"
#include "fake/fake_sdk.h"

#define FAKE_POINTER(type, name, arguments) type(*name) arguments;
static struct {
	FAKE_CONTROLS(FAKE_POINTER)
	FAKE_CUDA_CONTROLS(FAKE_POINTER)
	FAKE_AMD_CONTROLS(FAKE_POINTER)
	/* Faults in libcuda. */
	void (*cuda_fail)(const char *name, uint32_t first, uint32_t count, int code);
	uint32_t (*cuda_calls)(const char *name);
	int (*cu_init)(unsigned flags);
	/* HIP: a stream is being captured (1) or not (0). */
	void (*set_capture)(uint64_t stream, int status);
	void (*hip_set_error)(int error);
	int (*hip_last_error)(void);
} fake;

/* The controls that only one fake has. */
static struct {
	FAKE_ROCTRACER_CONTROLS(FAKE_POINTER)
} tracer;
static struct {
	FAKE_SDK_CONTROLS(FAKE_POINTER)
} sdk;
#undef FAKE_POINTER

static const char *tested_backend(void)
{
	const char *named = getenv("PROTON_TEST_BACKEND");

	return named ? named : "cupti";
}

static bool tests_backend(const char *name)
{
	return strcmp(tested_backend(), name) == 0;
}

static bool tests_cuda(void)
{
	return tests_backend("cupti");
}

/* CUPTI's second interface. */
static bool tests_second(void)
{
	const char *named = getenv("PROTON_CUPTI_INTERFACE");

	return tests_cuda() && named && strcmp(named, "2") == 0;
}

#define ONLY_FIRST()                                                                               \
	do {                                                                                       \
		if (!tests_cuda() || tests_second())                                               \
			SKIP("this is about CUPTI's first interface");                             \
	} while (0)

/* The entry point that does the same in the tested interface. */
static const char *entry_point(const char *name)
{
	static const char *const second[] = {
		"cuptiSubscribe_v2",
		"cuptiActivityEnable_v2",
		"cuptiActivityDisable_v2",
		"cuptiActivityRegisterCallbacks_v2",
		"cuptiActivityGetNextRecord_v2",
		"cuptiActivityGetNumDroppedRecords_v2",
		"cuptiActivitySetAttribute_v2",
		"cuptiGetTimestamp_v2",
	};

	for (size_t i = 0; tests_second() && i < sizeof(second) / sizeof(second[0]); i++)
		if (strlen(second[i]) == strlen(name) + 3 &&
		    strncmp(second[i], name, strlen(name)) == 0)
			return second[i];
	return name;
}

#define ONLY_CUDA(why)                                                                             \
	do {                                                                                       \
		if (!tests_cuda())                                                                 \
			SKIP(why);                                                                 \
	} while (0)
#define ONLY_AMD(why)                                                                              \
	do {                                                                                       \
		if (tests_cuda())                                                                  \
			SKIP(why);                                                                 \
	} while (0)
#define NOT_WITH(backend, why)                                                                     \
	do {                                                                                       \
		if (tests_backend(backend))                                                        \
			SKIP(why);                                                                 \
	} while (0)

/* In place of a control that the fake lacks. */
static void skip_test(void)
{
	SKIP("the fake of this backend has no such control");
}

static void find_optional(void *slot, void *handle, const char *name)
{
	void *symbol = dlsym(handle, name);

	if (!symbol)
		*(void (**)(void))slot = skip_test;
	else
		memcpy(slot, &symbol, sizeof(symbol));
}

/* The variable that names the library of the tested backend, or the driver's. */
static const char *library_variable(bool is_driver)
{
	if (tests_cuda())
		return is_driver ? "PROTON_CUDA_PATH" : "PROTON_CUPTI_PATH";
	if (is_driver)
		return "PROTON_HIP_PATH";
	return tests_backend("roctracer") ? "PROTON_ROCTRACER_PATH" : "PROTON_ROCPROFILER_SDK_PATH";
}

/* The program loads HIP. */
static void load_hip(void)
{
	void *library = fake_open("PROTON_HIP_PATH");

#define FIND(type, name, arguments) find_optional(&fake.name, library, "fake_" #name);
	FAKE_CUDA_CONTROLS(FIND)
#undef FIND
	find_optional(&fake.cuda_fail, library, "fake_fail");
	find_optional(&fake.cuda_calls, library, "fake_calls");
	find_optional(&fake.cu_init, library, "fake_init");
	find_optional(&fake.set_capture, library, "fake_set_capture");
	find_optional(&fake.hip_set_error, library, "fake_set_error");
	find_optional(&fake.hip_last_error, library, "fake_last_error");
}

/* The controls of a fake of rocprofiler-sdk or roctracer. */
static void find_fake_of_amd(void)
{
	void *library = fake_open(library_variable(false));

#define FIND(type, name, arguments) find_optional(&fake.name, library, "fake_" #name);
	FAKE_CONTROLS(FIND)
	FAKE_AMD_CONTROLS(FIND)
#undef FIND
#define FIND_TRACER(type, name, arguments) fake_find(&tracer.name, library, "fake_" #name);
#define FIND_SDK(type, name, arguments) fake_find(&sdk.name, library, "fake_sdk_" #name);
	if (tests_backend("roctracer")) {
		FAKE_ROCTRACER_CONTROLS(FIND_TRACER)
	} else {
		FAKE_SDK_CONTROLS(FIND_SDK)
	}
#undef FIND_TRACER
#undef FIND_SDK
}

static void find_fake_of_hip(void)
{
	kfd_make_machine();
	find_fake_of_amd();
	load_hip();
}

static void (*fail_named)(const char *name, uint32_t first, uint32_t count, int code);
static uint32_t (*calls_named)(const char *name);

/* The clock is an attribute of the second interface. */
static void fail_entry(const char *name, uint32_t first, uint32_t count, int code)
{
	if (tests_second() && strcmp(name, "cuptiActivityRegisterTimestampCallback") == 0)
		fake.refuse_attribute(first ? CUPTI_ATTRIBUTE_TIMESTAMP_CALLBACK : 0);
	else
		fail_named(entry_point(name), first, count, code);
}

static uint32_t calls_entry(const char *name)
{
	return calls_named(entry_point(name));
}

/* Finds the controls in the libraries that the backend will load. */
static void find_fake_of_cuda(void)
{
	void *cupti = fake_open("PROTON_CUPTI_PATH");
	void *cuda = fake_open("PROTON_CUDA_PATH");

#define FIND(type, name, arguments) fake_find(&fake.name, cupti, "fake_" #name);
	FAKE_CONTROLS(FIND)
#undef FIND
#define FIND(type, name, arguments) fake_find(&fake.name, cuda, "fake_" #name);
	FAKE_CUDA_CONTROLS(FIND)
#undef FIND
	fail_named = fake.fail;
	calls_named = fake.calls;
	fake.fail = fail_entry;
	fake.calls = calls_entry;
	fake_find(&fake.cuda_fail, cuda, "fake_fail");
	fake_find(&fake.cuda_calls, cuda, "fake_calls");
	fake_find(&fake.cu_init, cuda, "cuInit");
}

/* The same once: threads may be using it. */
static void load_fake(void)
{
	static bool is_loaded;

	if (!is_loaded)
		(tests_cuda() ? find_fake_of_cuda : find_fake_of_hip)();
	is_loaded = true;
}

/* Waiting for the GPU fails from now on: flushes do not wait long for records. */
__attribute__((unused)) static void fail_waiting(uint32_t count)
{
	fake.cuda_fail(tests_cuda() ? "cuCtxSynchronize" : "hipDeviceSynchronize", 1, count, 700);
}

/* A session "a" of the tested backend, unless the options say another; -1 with the error. */
static int start_with(struct proton_session_options options, struct proton_error *err)
{
	options.backend = options.backend ? options.backend : tested_backend();
	return rec_try_start(options, err);
}

__attribute__((unused)) static int start_named(const char *name, const char *backend,
					       struct proton_error *err)
{
	load_fake();
	return start_with(
		(struct proton_session_options){.name = rec_path(name), .backend = backend}, err);
}

/* The test fails if it does not start. */
__attribute__((unused)) static int start_options(struct proton_session_options options)
{
	struct proton_error err = {0};

	load_fake();
	int session = start_with(options, &err);
	if (session < 0)
		FAIL("start: %s", err.text);
	return session;
}

__attribute__((unused)) static int start(void)
{
	return start_options((struct proton_session_options){0});
}

/* Nothing is recorded; CUPTI may stay attached. */
__attribute__((unused)) static bool is_resting(void)
{
	return tests_cuda() ? fake.is_silent() : fake.is_idle();
}

__attribute__((unused)) static void launch_ns(const char *name, uint64_t duration_ns)
{
	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL,
		.name = name,
		.context = &fake,
		.records = 1,
		.start_ns = 1000,
		.end_ns = 1000 + duration_ns,
	});
}

/* A metric in device memory: one value of a tensor of doubles. */
__attribute__((unused)) static struct proton_device_metric device_double(const char *name,
									 const double *value,
									 uint64_t stream)
{
	return (struct proton_device_metric){
		.size = sizeof(struct proton_device_metric),
		.name = name,
		.type = PROTON_METRIC_DOUBLE,
		.element = PROTON_ELEMENT_FLOAT64,
		.count = 1,
		.address = (uintptr_t)value,
		.stream = stream,
	};
}

__attribute__((unused)) static struct profile *finish(void)
{
	return rec_finish();
}
