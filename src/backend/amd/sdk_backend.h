/* Internal interface of the rocprofiler-sdk backend. */
#ifndef BACKEND_AMD_SDK_BACKEND_H
#define BACKEND_AMD_SDK_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/amd/sdk_api.h"

/*
 * The contexts and buffers of rocprofiler-sdk (sdk_contexts.c): made once, by sdk_register.c; later
 * they can only be started.
 */
#define SDK_BUFFER_BYTES (256u << 10)

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
/* Starts recording of copies and memsets. E_UNSUPPORTED if the library does not report them. */
int sdk_contexts_start_memory(struct proton_error *err);
/* Asks the library for its complete records: 0, or its status. */
int sdk_contexts_flush(void);
/* In a forked child, on a launching thread: no buffer is filled any more. */
void sdk_contexts_stop_orphan(void);

/*
 * External correlation: 64 bits that the backend gives to each dispatch and copy, and that its
 * record carries. 0 is a dispatch of which it knows nothing: no session was active.
 */
#define SDK_ORDINAL_MAX 0x3ffffu

struct sdk_external {
	uint32_t number;  /* the launch in record/thread/correlate.h; never 0 */
	uint32_t ordinal; /* of the dispatch in its call, from 1; 0: not of its graph */
	uint32_t stream;  /* sdk_callbacks.c */
	bool is_of_memory_call;
};

/* Bits 0 to 31, 32 to 49, 50 to 61, 62; bit 63 is always 1. */
static inline uint64_t sdk_external_pack(struct sdk_external external)
{
	uint64_t ordinal = external.ordinal < SDK_ORDINAL_MAX ? external.ordinal : SDK_ORDINAL_MAX;

	return external.number | ordinal << 32 | (uint64_t)(external.stream & 0xfff) << 50 |
	       (uint64_t)external.is_of_memory_call << 62 | 1ull << 63;
}

/* False if the value is not from this backend. */
static inline bool sdk_external_unpack(uint64_t value, struct sdk_external *out)
{
	out->number = (uint32_t)value;
	out->ordinal = (uint32_t)(value >> 32) & SDK_ORDINAL_MAX;
	out->stream = (uint32_t)(value >> 50) & 0xfff;
	out->is_of_memory_call = value >> 62 & 1;
	return value >> 63;
}

/* Callbacks, on the application's threads. */
void sdk_callbacks_on_call(struct sdk_callback_record record, uint64_t *user, void *data);
void sdk_callbacks_on_marker(struct sdk_callback_record record, uint64_t *user, void *data);
void sdk_callbacks_on_graph(struct sdk_callback_record record, uint64_t *user, void *data);
int sdk_callbacks_on_request(uint64_t thread_id, struct sdk_context context, int kind,
			     int32_t operation, uint64_t internal, uint64_t *external, void *data);
void sdk_callbacks_start(void);
/* In the child of a fork. */
void sdk_callbacks_forked(void);
/* ROCTX ranges of libroctx64. */
void sdk_callbacks_follow_roctx(bool is_on);
/*
 * Launches since the last call that succeeded but made no dispatch, though nothing was captured:
 * the library does not see their queue. `elsewhere`: launches that another thread dispatched.
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
