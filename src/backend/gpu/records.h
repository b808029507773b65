/* Finished work in a vendor's records: finding its launch and adding it to the profile. */
#ifndef BACKEND_GPU_RECORDS_H
#define BACKEND_GPU_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
