/* Functions of librocprofiler-sdk, loaded at run time. */
#ifndef BACKEND_AMD_SDK_API_H
#define BACKEND_AMD_SDK_API_H

#include <stdatomic.h>

#include "backend/amd/sdk_abi.h"
#include "base/err.h"

struct sdk_api {
#define V(name, args) int(*name) args;
#include "backend/amd/sdk_symbols.def"
#undef V
};

/* Set by sdk_api_load(). */
extern struct sdk_api sdk;

/* Opens the library once. E_NOLIB with the searched places; E_VERSION: old, or incomplete. */
int sdk_api_load(struct proton_error *err);

/* Refuses versions before 1.0, which have other structs. major * 10000 + minor * 100 + patch. */
int sdk_api_check_version(uint32_t version, struct proton_error *err);

/* The status of a call of `call`: PROTON_OK, or E_STATE, E_VERSION, ... with the remedy. */
int sdk_api_status(int status, const char *call, struct proton_error *err);
/* The same of a call that is made here: function, arguments. */
#define SDK_CALL(err, name, ...) sdk_api_status(sdk.name(__VA_ARGS__), "rocprofiler_" #name, err)

/* Life cycle: one caller of backend_use.c at a time, a fork or the library's end change it. */
enum sdk_state {
	SDK_OFF, /* no session: the library still calls back, and nothing is recorded */
	/* A session waits for the library, which HIP starts; a fork may come before. */
	SDK_POSTPONED,
	SDK_FAILED, /* the library could not be used when HIP called the tool */
	SDK_ON,     /* recording */
	SDK_ENDED,  /* the library has ended, because the program exits */
	/*
	 * The child of a process that had registered. The library's threads are missing there: its
	 * callbacks take no lock, and the first one stops the contexts that fill buffers.
	 */
	SDK_ORPHANED,
};

extern _Atomic enum sdk_state sdk_state;

static inline enum sdk_state sdk_state_now(void)
{
	/* relaxed: a launch at the very moment of a start or stop may count or not */
	return atomic_load_explicit(&sdk_state, memory_order_relaxed);
}

#endif
