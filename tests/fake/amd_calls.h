/*
 * Shared by the fakes of rocprofiler-sdk and of roctracer: both have the controls of fake_cupti.h.
 * Thus tests of the CUDA backend run over them. Each library has a copy.
 */
#pragma once

#include <dlfcn.h>
#include <string.h>

#include "backend/amd/sdk_abi.h"
#include "fake/fake_cupti.h"

/* A call that copies or sets memory. */
struct fake_copy {
	const char *call;   /* "hipMemcpyAsync" */
	uint32_t operation; /* enum sdk_copy; 0: a memset, which a kernel of the runtime does */
	const char *kernel; /* its name */
	uint32_t device;
	uint32_t records; /* 0: one */
	uint64_t bytes;
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t stream;
	int result;
};

/* X(type, name, arguments): fake_NAME() in both libraries, in addition to those of fake_cupti.h. */
#define FAKE_AMD_CONTROLS(X)                                                                       \
	/* Its correlation ID. */                                                                  \
	X(uint64_t, copy, (const struct fake_copy *copy))                                          \
	/* The stream that captures of this thread use. */                                         \
	X(uint64_t, capture_stream, (void))

#define FAKE_DECLARE(type, name, arguments) FAKE_EXPORT type fake_##name arguments;
FAKE_AMD_CONTROLS(FAKE_DECLARE)
#undef FAKE_DECLARE

/* HIP's call for a call of CUDA. */
const char *amd_call_of(uint32_t call);

/* The handle of a stream. */
static inline uint64_t amd_stream(uint32_t stream)
{
	return 0x5000 + 16ull * stream;
}

/* Sets a pointer to the function; NULL: the library lacks it, or there is none. */
static inline void find_function(void *pointer, void *library, const char *name)
{
	void *symbol = library ? dlsym(library, name) : NULL;

	memcpy(pointer, &symbol, sizeof(symbol));
}

/* The correlation ID of the next call. */
extern _Atomic uint64_t amd_next_correlation;
/* Calls the hook, before each callback. */
void amd_call_hook(void);

/* Defined by each library: the callbacks of a call without work. */
void amd_call(const char *name, const uint64_t *arguments, size_t count, int result);
