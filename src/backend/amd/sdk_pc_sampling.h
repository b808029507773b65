/*
 * PC sampling with rocprofiler-sdk: docs/design/pc-sampling.md. A sample carries the number of its
 * dispatch, so its launch is known exactly.
 *
 * The library configures the service only while the tool registers, mostly before a session's mode
 * is known. So it is configured if ROCPROFILER_PC_SAMPLING_BETA_ENABLED is 1 then, which AMD
 * demands anyway. Between sessions its context is stopped.
 *
 * sdk_pc_sampling.c has the service, sdk_samples.c the records.
 */
#ifndef BACKEND_AMD_SDK_PC_SAMPLING_H
#define BACKEND_AMD_SDK_PC_SAMPLING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/amd/sdk_abi.h"
#include "base/err.h"
#include "record/backend.h"

/* True between start and stop in the mode "pcsampling". */
extern _Atomic bool sdk_samples_are_on;

static inline bool sdk_samples_run(void)
{
	return atomic_load_explicit(&sdk_samples_are_on, memory_order_relaxed);
}

/* True if the name of `mode` is pcsampling. */
bool sdk_pc_sampling_is_mode(const char *mode);
int sdk_pc_sampling_check_mode(const char *mode, struct proton_error *err);
/* Before the registration, if that is not done yet: the mode of the session that starts. */
void sdk_pc_sampling_want(const char *mode);

/* While the tool registers. Failures are reported by a later start. */
void sdk_pc_sampling_configure(void);
/* True if code objects have to be kept. */
bool sdk_pc_sampling_is_configured(void);
int sdk_pc_sampling_start(const char *mode, struct proton_error *err);
void sdk_pc_sampling_stop(void);
/* Adds the samples of all work that has finished. After the dispatches' records have arrived. */
void sdk_pc_sampling_flush(void);
void sdk_pc_sampling_describe(backend_add_fn add, void *user);
void sdk_pc_sampling_forked(void);

/* On the thread of the records: a dispatch is not for the profile, and neither are its samples. */
void sdk_samples_ignore_dispatch(uint64_t dispatch_id);
void sdk_samples_on_buffer(struct sdk_context context, struct sdk_buffer buffer,
			   struct sdk_record_header **headers, size_t count, void *data,
			   uint64_t dropped);
void sdk_samples_start(void);
/* Adds samples that came before the record of their dispatch. */
void sdk_samples_settle(void);
void sdk_samples_clear(void);
void sdk_samples_forked(void);
/* CPU time that samples have cost on the library's thread since the start. */
uint64_t sdk_samples_cost_ns(void);

#endif
