/*
 * Controls of the fake librocprofiler-sdk, found with dlsym(). Those of fake_cupti.h that are not
 * about CUPTI alone have the same names and meaning here: launch, skip_correlations, hold, drop,
 * is_idle, call, set_hook, fail, calls. `call` is CUPTI's number of the call, which stands for one
 * of HIP (sdk_launch.c). So tests of the CUDA backend run over this library too.
 *
 * Split by idea: sdk_configure.c (registration, contexts, services), sdk_buffers.c (buffers and
 * their thread), sdk_launch.c (launches, copies, markers), sdk_graphs.c, sdk_names.c (kinds and
 * operations).
 *
 * Environment: FAKE_SDK_VERSION, such as 600, 10000 or 10201 (default), major * 10000 + minor * 100
 * + patch. From 10300 on every struct is longer than in 1.2.1. FAKE_SDK_RENUMBER: kinds and
 * operations have other numbers. FAKE_SDK_LATE_MS: records are complete that long after the launch.
 * FAKE_SDK_LOCKED: HIP has initialized the library before. FAKE_CUPTI_FAIL, "name=code".
 */
#ifndef TESTS_FAKE_FAKE_SDK_H
#define TESTS_FAKE_FAKE_SDK_H

#include <stdbool.h>

#include "backend/amd/sdk_abi.h"
#include "fake/fake_cupti.h"

/* A call that copies or sets memory. */
struct fake_copy {
	const char *call;   /* "hipMemcpyAsync" */
	uint32_t operation; /* enum sdk_copy; 0: a kernel of the runtime does it */
	const char *kernel; /* its name */
	uint32_t device;
	uint64_t bytes;
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t stream;
	int result;
};

/* X(type, name, arguments): fake_sdk_NAME(). */
#define FAKE_SDK_CONTROLS(X)                                                                       \
	/* A call of HIP by name, without work: callbacks at enter and exit. */                    \
	X(void, call, (const char *name, const uint64_t *arguments, size_t count, int result))     \
	X(void, copy, (const struct fake_copy *copy))                                              \
	/* The stream that captures of this thread use. */                                         \
	X(uint64_t, capture_stream, (void))                                                        \
	/* roctxRangePush and roctxRangePop. */                                                    \
	X(void, range_push, (const char *text))                                                    \
	X(void, range_pop, (void))                                                                 \
	/* Launches from now on make no dispatch: their queue is older than the registration. */   \
	X(void, queues_exist, (bool exist))                                                        \
	/* A launch makes so many dispatches more, by kernels of the runtime. */                   \
	X(void, extra_dispatches, (uint32_t count))                                                \
	/* HIP registers its functions now: finds a tool if none was forced before. */             \
	X(int, register_with, (sdk_configure_fn configure))                                        \
	/* Contexts that are started. */                                                           \
	X(uint32_t, started, (void))                                                               \
	/* Times that a context was stopped. */                                                    \
	X(uint32_t, stops, (void))                                                                 \
	/* Callbacks of HIP's calls delivered so far. */                                           \
	X(uint32_t, callbacks, (void))                                                             \
	/* The end of the program: everything fails with FINALIZED from now on. */                 \
	X(void, finalize, (void))

#define FAKE_DECLARE(type, name, arguments) type fake_sdk_##name arguments;
FAKE_SDK_CONTROLS(FAKE_DECLARE)
#undef FAKE_DECLARE

#endif
