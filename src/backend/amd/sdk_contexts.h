/*
 * The contexts and buffers of rocprofiler-sdk. They are made once, by sdk_register.c; later they
 * can only be started.
 */
#ifndef BACKEND_AMD_SDK_CONTEXTS_H
#define BACKEND_AMD_SDK_CONTEXTS_H

#include <stdbool.h>

#include "backend/amd/sdk_api.h"

#define SDK_BUFFER_BYTES (256u << 10)

/* Written during the registration. */
struct sdk_contexts {
	struct sdk_context profiling;
	struct sdk_context memory;
	struct sdk_buffer dispatches;
	struct sdk_buffer copies;
	_Atomic bool has_memory;
};

extern struct sdk_contexts sdk_contexts;

/* Starts recording of launches; it is never stopped. */
int sdk_contexts_start_profiling(struct proton_error *err);
/* The same for copies and memsets. E_UNSUPPORTED if the library does not report them. */
int sdk_contexts_start_memory(struct proton_error *err);
/* Asks the library for its complete records: 0, or its status. */
int sdk_contexts_flush(void);
/* In a forked child, on a launching thread: no buffer is filled any more. */
void sdk_contexts_stop_orphan(void);

#endif
