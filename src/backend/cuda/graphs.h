/*
 * CUDA graphs: which context each kernel node was captured in, found again by the node id that the
 * kernel's record carries.
 */
#ifndef BACKEND_CUDA_GRAPHS_H
#define BACKEND_CUDA_GRAPHS_H

#include "backend/cuda/cupti_api.h"
#include "record/thread/captured.h"

/* A resource callback about graphs, on the application's thread. */
void graphs_on_resource(const struct cupti_api *api, uint32_t event,
			const struct cupti_graph_data *graph);

/*
 * The calling thread begins a capture, or has ended one well. Metrics that no kernel followed count
 * with the last kernel before them; without any kernel they are lost, and counted as that.
 */
void graphs_begin_capture(void);
void graphs_end_capture(void);

/* One record of a graph launch made at `launch`. */
void graphs_record(struct proton_context launch, uint64_t node_id,
		   const struct execution *execution);

/* In an API callback: flushes and frees if many graphs were destroyed since the last flush. */
void graphs_flush_if_due(const struct cupti_api *api);
/* Frees graphs destroyed before a monotonic time; all their records have come. */
void graphs_forget_destroyed(uint64_t before_ns);
/* After the last session: frees everything. */
void graphs_clear(void);

/* For tests: nodes that are remembered; how old a destroyed graph must be to be freed unflushed. */
size_t graphs_nodes(void);
void graphs_set_patience(uint64_t ns);

#endif
