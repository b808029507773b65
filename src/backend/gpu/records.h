/* Finished work in a vendor's records: finding its launch and adding it to the profile. */
#pragma once

#include <time.h>

#include "record/backend.h"
#include "record/store/execution.h"
#include "record/thread/record_launch.h"

#define RECORDS_BUFFER_MIN_BYTES (64u << 10)

/* Size of a buffer of records: whole pages, 4 MiB or what TRITON_PROFILE_BUFFER_SIZE says. */
size_t records_buffer_bytes(void);

/*
 * Finds the launch of a kernel, or of a memory operation. False if the record is not for the
 * profile: no launch is known, which is counted, or all sessions were paused. `node`: the graph
 * node that ran; 0 outside graphs.
 */
bool records_find_kernel(uint32_t correlation, uint64_t node, struct correlation *launch_out);
bool records_find_memory(uint32_t correlation, struct correlation *launch_out);

/*
 * Adds it; always called after finding it. Times are in clock_monotonic_ns(), 0 if unknown; invalid
 * ones are counted. .launch, .is_of_graph and, if a launch hook named the kernel, .frame are set
 * here.
 */
void records_add(const struct correlation *launch, uint64_t node, struct execution *execution);

/* Texts about a GPU backend in the profile: numbers, and what recording has cost. */

void gpu_describe_number(backend_add_fn add, void *user, const char *key, uint64_t value);
/* The time that callbacks and records have cost since the start. */
void gpu_describe_overhead(backend_add_fn add, void *user);

/* Times of records: the vendor's clock against clock_monotonic_ns(), for one backend at a time. */

extern _Atomic uint64_t record_times_offset_ns; /* added to the library's times; wraps */

/* The library uses the recorder's clock. */
static inline void record_times_are_ours(void)
{
	atomic_store_explicit(&record_times_offset_ns, 0, memory_order_relaxed);
}

/* Compares both clocks. `read`: the library's time now; false: it counts like `clock`. */
void record_times_measure(bool (*read)(uint64_t *now_ns), clockid_t clock);

/* Converts the time of a record; 0 stays "unknown". */
static inline uint64_t record_times_convert(uint64_t their_ns)
{
	return their_ns ? their_ns + atomic_load_explicit(&record_times_offset_ns,
							  memory_order_relaxed)
			: 0;
}

/* Names of memory copies and memsets, as torch.profiler has them. */

/* The numbers are CUPTI's. */
enum copy_kind {
	COPY_UNKNOWN,
	COPY_HTOD,
	COPY_DTOH,
	COPY_HTOA,
	COPY_ATOH,
	COPY_ATOA,
	COPY_ATOD,
	COPY_DTOA,
	COPY_DTOD,
	COPY_HTOH,
	COPY_PTOP,
	COPY_KINDS,
};

enum memory_kind {
	MEMORY_UNKNOWN,
	MEMORY_PAGEABLE,
	MEMORY_PINNED,
	MEMORY_DEVICE,
	MEMORY_ARRAY,
	MEMORY_MANAGED,
	MEMORY_DEVICE_STATIC,
	MEMORY_MANAGED_STATIC,
	MEMORY_KINDS,
};

/* Frames; unknown numbers are named so. Only on the thread of the records. */
uint32_t memory_operations_copy_frame(uint32_t copy, uint32_t from, uint32_t to);
uint32_t memory_operations_set_frame(uint32_t memory);

/*
 * Waiting at a flush for the records of launched work. The vendor's library delivers them in any
 * order, after some time, or never. At most one backend of a GPU vendor uses it at a time.
 */

struct await_vendor {
	/* Asks for complete records; one caller at a time. 0, or the vendor's error. */
	int (*flush)(void);
	/* Records dropped since the last call, which the vendor counts on request. May be NULL. */
	uint64_t (*take_dropped)(void);
	/* False if the library has no buffer to fill: no record may arrive. May be NULL. */
	bool (*has_buffers)(void);
	const char *name;  /* the library, for "no ... records were received" */
	const char *cause; /* why records may be missing, as the rest of that sentence */
};

/* With the first session. `vendor` stays valid. */
void await_records_start(const struct await_vendor *vendor);
/* Nothing is flushed until the next start: a call would attach to a library that is left. */
void await_records_stop(void);
/*
 * Flushes and waits until `launched` launches have their records, or until none has arrived for
 * some time: a long time, or a short one if some may never arrive (`in_doubt`). After the last call
 * with an unknown number of records (`last_shared`; 0: none) it waits until no more arrive. Missing
 * records are counted. 0, or the vendor's error.
 */
int await_records_flush(uint64_t launched, uint32_t last_shared, bool in_doubt);
/* Flushes complete records; false if another flush is in progress, which does the same. */
bool await_records_ask(void);
/* True if records were missing since the start. */
bool await_records_were_missed(void);

/* On the thread of the records. Any record: */
void await_records_note(void);
/* The record of a kernel launch that a flush waits for. */
void await_records_note_complete(void);
/* A record of a call with an unknown number of records. */
void await_records_note_shared(uint32_t correlation);
/* Records that were lost, for example in full buffers: counted in the profile. */
void await_records_note_dropped(uint64_t count);
/* The library got no buffer, so records are lost that only it counts. */
void await_records_note_refused(void);
/*
 * Around the records of a buffer: the counts above are then added at once, after all of them, and
 * the CPU time in between is counted as cost. Begin returns the start, for the end.
 */
uint64_t await_records_begin(void);
void await_records_end(uint64_t start_ns);
uint64_t await_records_cost_ns(void);
