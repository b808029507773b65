/* Finished work in a vendor's records: finding its launch and adding it to the profile. */
#ifndef BACKEND_GPU_RECORDS_H
#define BACKEND_GPU_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "record/backend.h"
#include "record/store/execution.h"
#include "record/thread/correlate.h"

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

#endif
