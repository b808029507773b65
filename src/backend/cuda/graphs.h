/*
 * CUDA graphs: the context in which each kernel node was captured, found by the node id in the
 * kernel's record.
 */
#ifndef BACKEND_CUDA_GRAPHS_H
#define BACKEND_CUDA_GRAPHS_H

#include "backend/cuda/cupti_api.h"
#include "record/thread/captured.h"

/* Resource callback for graphs, on the application's thread. */
void graphs_on_resource(uint32_t event, const struct cupti_graph_data *graph);

/*
 * The calling thread begins a capture, or has ended one successfully. Metrics that no kernel
 * followed are attributed to the last kernel before them; without any kernel they are counted as
 * lost.
 */
void graphs_begin_capture(void);
void graphs_end_capture(void);

/* Adds one record of a graph launch made at `launch`. */
void graphs_record(struct proton_context launch, uint64_t node_id,
		   const struct execution *execution);

/* The CRC of the cubin of a captured kernel; 0: not known. */
uint64_t graphs_crc(uint64_t node_id);

/* In an API callback: flushes and frees if many graphs were destroyed since the last flush. */
void graphs_flush_if_due(void);
/* Frees graphs destroyed before a monotonic time; all their records have arrived. */
void graphs_forget_destroyed(uint64_t before_ns);
/* After the last session: frees everything. */
void graphs_clear(void);

/*
 * For tests: the number of stored nodes; the age at which a destroyed graph is freed without a
 * flush.
 */
size_t graphs_nodes(void);
void graphs_set_patience(uint64_t ns);

#endif
