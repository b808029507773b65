/* HIP graphs: captured work in its order, which matches records without node ids. */
#ifndef BACKEND_AMD_HIP_GRAPHS_H
#define BACKEND_AMD_HIP_GRAPHS_H

#include <stdbool.h>
#include <stdint.h>

#include <libproton/proton.h>

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

/* Work on `stream` has been launched. True if it was captured. Cheap while no capture is open. */
bool hip_graphs_take(uint64_t stream, bool is_kernel);
/* The append of a device metric (hip_tensors.h) was captured. False: into an unknown graph. */
bool hip_graphs_take_append(uint64_t stream);

/* Kinds of captured work, in order of capture. */
enum hip_node {
	HIP_NODE_KERNEL,
	HIP_NODE_MEMORY,
	HIP_NODE_OWN, /* a memory operation of Proton */
	HIP_NODE_APPEND,
};

/* Nodes of a graph, or of an executable graph. */
struct hip_plan {
	uint32_t references;
	uint32_t id;    /* upper half of their node ids (captured_nodes.h) */
	bool is_known;  /* it was captured here */
	uint8_t *kinds; /* enum hip_node */
	size_t count;
	size_t capacity;
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

#endif
