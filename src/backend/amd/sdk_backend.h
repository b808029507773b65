/* Internal interface of the rocprofiler-sdk backend. */
#ifndef BACKEND_AMD_SDK_BACKEND_H
#define BACKEND_AMD_SDK_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/amd/sdk_api.h"

/* Callbacks, on the application's threads. */
void sdk_callbacks_on_call(struct sdk_callback_record record, uint64_t *user, void *data);
void sdk_callbacks_on_marker(struct sdk_callback_record record, uint64_t *user, void *data);
void sdk_callbacks_on_graph(struct sdk_callback_record record, uint64_t *user, void *data);
int sdk_callbacks_on_request(uint64_t thread_id, struct sdk_context context, int kind,
			     int32_t operation, uint64_t internal, uint64_t *external, void *data);
void sdk_callbacks_start(void);
/* ROCTX ranges of libroctx64. */
void sdk_callbacks_follow_roctx(bool is_on);
/*
 * Launches since the last call that succeeded but made no dispatch, though nothing was captured:
 * the library does not see their queue. `elsewhere`: those of which another thread made the
 * dispatch.
 */
uint64_t sdk_callbacks_take_silent(uint64_t *elsewhere_out);
/* True if the record of an unknown launch is from before the start. `internal`: its correlation. */
bool sdk_callbacks_is_older(uint64_t internal);
/* The bytes that a memory call copies or sets; 0: not known (any more). On any thread. */
uint64_t sdk_callbacks_bytes(uint32_t number);

/* Records, on the library's thread. */
void sdk_records_on_buffer(struct sdk_context context, struct sdk_buffer buffer,
			   struct sdk_record_header **headers, size_t count, void *data,
			   uint64_t dropped);
void sdk_records_start(void);
/* Waits for the records of all launches so far. */
int sdk_records_flush(struct proton_error *err);

/* Devices: the id of record/store/devices.h. On the thread of the records. */
uint32_t sdk_agents_device(uint64_t agent);
/* The number of HIP's devices; 0: not known. */
size_t sdk_agents_count(void);
/* Waits for all work on the devices that have had records, and on the calling thread's. */
bool sdk_agents_synchronize(void);

#endif
