/*
 * Controls of the fake librocprofiler-sdk, found with dlsym(). Those of fake_cupti.h that are not
 * about CUPTI alone have the same names and meaning here: launch, skip_correlations, hold, drop,
 * is_idle, call, set_hook, fail, calls. `call` is CUPTI's number of the call, which stands for one
 * of HIP (amd_calls.c). So tests of the CUDA backend run over this library too.
 *
 * Split by idea: sdk_configure.c (registration, contexts, services), sdk_buffers.c (buffers and
 * their thread), sdk_launch.c (launches, copies, markers), amd_graphs.c, sdk_names.c (kinds and
 * operations), sdk_pc_sampling.c (configurations of GPUs, samples).
 *
 * Environment: FAKE_SDK_VERSION, such as 600, 10000 or 10201 (default), major * 10000 + minor * 100
 * + patch. From 10300 on every struct is longer than in 1.2.1. FAKE_SDK_RENUMBER: kinds and
 * operations have other numbers. FAKE_SDK_LATE_MS: records are complete that long after the launch.
 * FAKE_SDK_PCS_BUSY: another process has configured host-trap sampling at an interval of 5000; the
 * first call that configures fails. FAKE_SDK_PCS_NONE: no GPU can be sampled.
 * FAKE_SDK_HIP_HIDES: bits of GPUs that HIP does not see. FAKE_CUPTI_FAIL, "name=code".
 */
#pragma once

#include <stdbool.h>

#include "backend/amd/sdk_abi.h"
#include "fake/amd_calls.h"

/* Statuses that the backend does not tell from others. */
enum fake_sdk_status {
	SDK_E_CONTEXT_NOT_FOUND = 2,
	SDK_E_BUFFER_NOT_FOUND = 3,
	SDK_E_KIND_NOT_FOUND = 4,
	SDK_E_OPERATION_NOT_FOUND = 5,
	SDK_E_THREAD_NOT_FOUND = 6,
	SDK_E_CONTEXT_NOT_STARTED = 11,
	SDK_E_CONTEXT_ID_NOT_ZERO = 13,
	SDK_E_SERVICE_ALREADY_CONFIGURED = 15,
	SDK_E_NOT_IMPLEMENTED = 17,
	SDK_E_INCOMPATIBLE_ABI = 18,
	SDK_E_INVALID_ARGUMENT = 19,
};

/* Where code objects are loaded: their virtual addresses begin at FAKE_CODE_FIRST there. */
#define FAKE_CODE_BASE 0x7f0000000000ull
#define FAKE_CODE_FIRST 0x1000u

/* PC samples of one instruction. */
struct fake_sample {
	uint32_t kind; /* enum sdk_sample_kind; 0: that of the configured method */
	uint32_t device;
	uint64_t dispatch_id;
	uint64_t code_object; /* 0: unknown */
	uint64_t address;     /* virtual, as in the code object */
	uint32_t reason;      /* for not issuing; 16: the instruction was issued */
	uint32_t count;
};

/* X(type, name, arguments): fake_sdk_NAME(). */
#define FAKE_SDK_CONTROLS(X)                                                                       \
	/* A call of HIP by name, without work: callbacks at enter and exit. */                    \
	X(void, call, (const char *name, const uint64_t *arguments, size_t count, int result))     \
	/* A launch of a kernel that takes that long. */                                           \
	X(void, launch_kernel, (const char *name, uint64_t duration_ns))                           \
	/* roctxRangePush and roctxRangePop. */                                                    \
	X(void, range_push, (const char *text))                                                    \
	X(void, range_pop, (void))                                                                 \
	/* Launches from now on make no dispatch: their queue is older than the registration. */   \
	X(void, queues_exist, (bool exist))                                                        \
	/* A launch makes so many dispatches more, by kernels of the runtime. */                   \
	X(void, extra_dispatches, (uint32_t count))                                                \
	/* The packet of a launch from now on waits for the next launch, of any thread. */         \
	X(void, defer, (bool is_on))                                                               \
	/* HIP is initialized and finds this tool. */                                              \
	X(int, register_with, (sdk_configure_fn configure))                                        \
	/* Contexts that are started. */                                                           \
	X(uint32_t, started, (void))                                                               \
	/* Times that a context was stopped. */                                                    \
	X(uint32_t, stops, (void))                                                                 \
	/* Loads a code object with this kernel, in memory or in the file of a URI. Its id. */     \
	X(uint64_t, load_code,                                                                     \
	  (const char *kernel, const void *bytes, size_t length, const char *uri))                 \
	/* The number of the latest dispatch. */                                                   \
	X(uint64_t, last_dispatch, (void))                                                         \
	/* PC samples, if a context with the service is started. Returns their number. */          \
	X(uint32_t, sample, (const struct fake_sample *sample))                                    \
	/* The configuration of a GPU: method and interval; 0: none. */                            \
	X(int, pcs_method, (uint32_t device))                                                      \
	X(uint64_t, pcs_interval, (uint32_t device))                                               \
	/* The end of the program: everything fails with FINALIZED from now on. */                 \
	X(void, finalize, (void))

#define FAKE_DECLARE(type, name, arguments) type fake_sdk_##name arguments;
FAKE_SDK_CONTROLS(FAKE_DECLARE)
#undef FAKE_DECLARE
