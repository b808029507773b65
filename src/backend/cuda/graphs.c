/*
 * CUDA graphs: CUPTI's events of nodes and graphs.
 *
 * The upper 32 bits of a node id are the id of its graph. Instantiating a graph clones its nodes
 * into the executable graph; records carry the clones' ids. Each clone shares the captured data
 * with its original (backend/gpu/captured_nodes.h).
 *
 * Child graphs and the bodies of conditional nodes are graphs inside another one, with their own
 * ids; the driver need not report their destruction. A graph that is made between the begin and the
 * end of an instantiation, or of a node that contains a graph, is therefore owned by the outermost
 * graph around it, and freed together with it.
 */
#include "backend/cuda/callbacks.h"

#include <pthread.h>

#include "backend/cuda/sampling_hooks.h"
#include "backend/gpu/captured_nodes.h"
#include "base/array.h"

/* Graphs being made by the calling thread. */
static _Thread_local struct {
	bool is_instantiating;
	uint32_t around;    /* the graph that gets a node with a graph inside; 0: none */
	uint32_t original;  /* the last cloned graph without owner */
	uint32_t clone;     /* and its clone */
	uint32_t *embedded; /* graphs made in this instantiation */
	size_t count;
	size_t capacity;
} making;

static pthread_key_t exit_key;
static pthread_once_t exit_key_once = PTHREAD_ONCE_INIT;

static void free_making(void *unused)
{
	free(making.embedded);
	making.embedded = NULL;
	making.capacity = 0;
}

static void make_exit_key(void)
{
	pthread_key_create(&exit_key, free_making);
}

/* If the last session ends during an instantiation, its end is never reported. */
static void forget_making_at_exit(void)
{
	pthread_once(&exit_key_once, make_exit_key);
	pthread_setspecific(exit_key, &making);
}

/* The outermost graph around `id`. */
static uint32_t outermost(uint32_t id)
{
	uint32_t owner = captured_nodes_owner(id);

	return owner ? owner : id;
}

static void note_embedded(uint32_t id)
{
	if (making.count && making.embedded[making.count - 1] == id)
		return;
	forget_making_at_exit();
	if (array_reserve(&making.embedded, &making.capacity, making.count + 1,
			  sizeof(*making.embedded)))
		making.embedded[making.count++] = id;
}

/* Adds a graph that appeared on this thread, with its owner if already known. */
static void note_graph(uint32_t id, uint32_t original_id)
{
	if (making.is_instantiating) {
		note_embedded(id);
	} else if (making.around && making.around != id) {
		captured_nodes_own(id, outermost(making.around), true);
	} else if (original_id) {
		uint32_t owner = captured_nodes_owner(original_id);
		if (owner && owner == making.original) {
			captured_nodes_own(id, making.clone, false);
		} else if (!owner) {
			making.original = original_id;
			making.clone = id;
		}
	}
}

/* Kernels, and memory operations, which a session may request before any replay. */
static bool has_records(int node_type)
{
	return node_type == CUDA_GRAPH_NODE_KERNEL || node_type == CUDA_GRAPH_NODE_MEMCPY ||
	       node_type == CUDA_GRAPH_NODE_MEMSET;
}

static void on_node_created(const struct cupti_graph_data *graph)
{
	const struct sampling_hooks *hooks = sampling_hooks_get();
	uint64_t node_id;

	if (libcupti.cuptiGetGraphNodeId(graph->node, &node_id) == CUPTI_OK)
		captured_nodes_add(node_id, graph->node_type == CUDA_GRAPH_NODE_KERNEL,
				   hooks->captured_crc ? hooks->captured_crc() : 0);
}

/* Also called for a node of an executable graph that was updated from another graph. */
static void on_node_cloned(const struct cupti_graph_data *graph)
{
	uint64_t node_id, original_id;

	if (libcupti.cuptiGetGraphNodeId(graph->node, &node_id) != CUPTI_OK ||
	    libcupti.cuptiGetGraphNodeId(graph->original_node, &original_id) != CUPTI_OK)
		return;
	if (has_records(graph->node_type))
		captured_nodes_clone(node_id, original_id);
	note_graph((uint32_t)(node_id >> 32), (uint32_t)(original_id >> 32));
}

static void on_instantiated(uint32_t id)
{
	for (size_t i = 0; i < making.count; i++) {
		captured_nodes_set_executable(making.embedded[i]);
		captured_nodes_own(making.embedded[i], id, false);
	}
	free(making.embedded);
	making.embedded = NULL;
	making.count = 0;
	making.capacity = 0;
	making.is_instantiating = false;
}

static void on_graph_created(const struct cupti_graph_data *graph)
{
	uint32_t id;

	if (making.around && libcupti.cuptiGetGraphId(graph->graph, &id) == CUPTI_OK)
		note_graph(id, 0);
}

static void on_node_begins(const struct cupti_graph_data *graph)
{
	if (has_records(graph->node_type) ||
	    libcupti.cuptiGetGraphId(graph->graph, &making.around) != CUPTI_OK)
		making.around = 0;
}

void graphs_on_resource(uint32_t event, const struct cupti_graph_data *graph)
{
	uint32_t id = 0;

	switch (event) {
	case CUPTI_RESOURCE_GRAPH_CREATED:
		on_graph_created(graph);
		break;
	case CUPTI_RESOURCE_GRAPHNODE_CREATE_STARTING:
		on_node_begins(graph);
		break;
	case CUPTI_RESOURCE_GRAPHNODE_CREATED:
		making.around = 0;
		if (has_records(graph->node_type))
			on_node_created(graph);
		break;
	case CUPTI_RESOURCE_GRAPHNODE_CLONED:
	case CUPTI_RESOURCE_GRAPHNODE_UPDATED:
		on_node_cloned(graph);
		break;
	case CUPTI_RESOURCE_GRAPHEXEC_CREATE_STARTING:
		making.is_instantiating = true;
		making.count = 0;
		break;
	case CUPTI_RESOURCE_GRAPHEXEC_CREATED:
		/* Id 0, which no graph has, if it is unknown: kept until the end. */
		if (libcupti.cuptiGetGraphExecId(graph->graph_exec, &id) != CUPTI_OK)
			id = 0;
		on_instantiated(id);
		break;
	case CUPTI_RESOURCE_GRAPH_DESTROY_STARTING:
		if (libcupti.cuptiGetGraphId(graph->graph, &id) == CUPTI_OK)
			captured_nodes_destroy(id, false);
		break;
	case CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING:
		if (libcupti.cuptiGetGraphExecId(graph->graph_exec, &id) == CUPTI_OK)
			captured_nodes_destroy(id, true);
		break;
	default:
		break;
	}
}
