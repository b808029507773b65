/* HIP graphs: captured work in its order, which matches records without node ids. */
#pragma once

#include <libproton/proton.h>

#include "backend/gpu/tensors.h"
#include "record/store/execution.h"
#include "record/thread/record_launch.h"

enum hip_graph_call {
	HIP_GRAPH_CALL_NONE,
	HIP_GRAPH_BEGIN_CAPTURE,
	HIP_GRAPH_END_CAPTURE,
	HIP_GRAPH_INSTANTIATE,
	HIP_GRAPH_UPDATE,
	HIP_GRAPH_DESTROY_EXEC,
	HIP_GRAPH_DESTROY,
	HIP_GRAPH_CLONE,
};

/* HIP's calls to which a backend subscribes, in addition to launches: X(name, call). */
#define HIP_GRAPH_CALLS(X)                                                                         \
	X(hipStreamBeginCapture, HIP_GRAPH_BEGIN_CAPTURE)                                          \
	X(hipStreamBeginCapture_spt, HIP_GRAPH_BEGIN_CAPTURE)                                      \
	X(hipStreamBeginCaptureToGraph, HIP_GRAPH_BEGIN_CAPTURE)                                   \
	X(hipStreamEndCapture, HIP_GRAPH_END_CAPTURE)                                              \
	X(hipStreamEndCapture_spt, HIP_GRAPH_END_CAPTURE)                                          \
	X(hipGraphInstantiate, HIP_GRAPH_INSTANTIATE)                                              \
	X(hipGraphInstantiateWithFlags, HIP_GRAPH_INSTANTIATE)                                     \
	X(hipGraphInstantiateWithParams, HIP_GRAPH_INSTANTIATE)                                    \
	X(hipGraphExecUpdate, HIP_GRAPH_UPDATE)                                                    \
	X(hipGraphExecDestroy, HIP_GRAPH_DESTROY_EXEC)                                             \
	X(hipGraphDestroy, HIP_GRAPH_DESTROY)                                                      \
	X(hipGraphClone, HIP_GRAPH_CLONE)

/* The call of that name. */
enum hip_graph_call hip_graphs_call(const char *name);
/*
 * On the calling thread, when the call begins and when it has returned. `arguments`: the union of
 * its arguments, as rocprofiler-sdk passes them; `has_pointees`: as roctracer does, with the values
 * of pointers after these. A result that is unknown is not a failure.
 */
void hip_graphs_on_call(enum hip_graph_call call, const void *arguments, bool has_pointees,
			bool is_enter, bool has_failed);

/* Kinds of captured work, in order of capture. */
enum hip_node {
	HIP_NODE_KERNEL,
	HIP_NODE_MEMORY,
	HIP_NODE_OWN, /* a memory operation of Proton */
	HIP_NODE_APPEND,
};

/*
 * Work on `stream` has been launched: a kernel, a memory operation or the append of a device metric
 * (hip_tensors.c). True if it was captured. Cheap while no capture is open.
 */
bool hip_graphs_take(uint64_t stream, enum hip_node kind);

/* Nodes of a graph, or of an executable graph. */
struct hip_plan {
	uint32_t references;
	uint32_t id;    /* upper half of their node ids (captured_nodes.h) */
	bool is_known;  /* it was captured here */
	uint8_t *kinds; /* enum hip_node */
	size_t count;
	size_t kernels;
	size_t memory; /* and own work */
	size_t appends;
};

static inline uint64_t hip_plan_node(const struct hip_plan *plan, size_t index)
{
	return (uint64_t)plan->id << 32 | (index + 1);
}

/* The plan of an executable graph, with a reference; NULL: out of memory. */
const struct hip_plan *hip_graphs_plan(uint64_t exec);
void hip_graphs_release(const struct hip_plan *plan);

/* After the last session. */
void hip_graphs_clear(void);

/* Replays of HIP graphs: records matched with captured work by order, or shown by name. */

/* How the order of a replay's work is known. */
enum hip_replays_mode {
	HIP_REPLAYS_BY_ARRIVAL, /* of its records, or by a number in them */
	HIP_REPLAYS_BY_REQUEST, /* each piece asks for a number, within the call that launches */
	HIP_REPLAYS_BY_EVENT,   /* the same, within an event of the graph's launch in that call */
};

void hip_replays_start(enum hip_replays_mode mode);
/* True while records of memory operations are enabled: a replay waits for them too. */
void hip_replays_set_memory(bool is_recorded);

/* A launch of `exec` at `where` begins on this thread, after launches_begin(), or has returned. */
void hip_replays_begin(uint64_t exec, uint32_t correlation, struct proton_context where);
void hip_replays_end(bool has_failed);
/* The event of a graph's launch. */
void hip_replays_event(bool is_enter);
/* The number of the next piece of work of this launch; 0: the thread launches no graph. */
uint64_t hip_replays_next(void);

/*
 * Adds a record, of a kernel or of a memory operation, such as a kernel with which the runtime
 * copies. `number`: from hip_replays_next(), 0 if there was none; `order`: increases from record to
 * record of a replay, 0 if unknown. False: it is not part of a graph that is known.
 */
bool hip_replays_add(const struct correlation *launch, uint64_t number, uint64_t order,
		     const struct execution *execution);

/* All records of replays up to `newest` have arrived, or will not: adds those that wait. */
void hip_replays_settle(uint32_t newest);
/* After the last session. */
void hip_replays_clear(void);

/* Device metrics on AMD: values in device memory, copied to the host in stream order. */

extern const struct tensors_reader hip_tensors_reader;

/* After fork(), in the child. */
void hip_tensors_forget(void);
