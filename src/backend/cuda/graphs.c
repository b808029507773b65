/*
 * CUDA graphs. See graphs.h.
 *
 * A node id's upper 32 bits are the id of its graph, so that a graph's nodes can be found and freed
 * together. Instantiating a graph clones its nodes into the executable graph, whose ids the
 * records carry; each clone shares what was captured with its original. A graph may be destroyed
 * while replays of it still run: it is marked then, and freed after the next flush.
 */
#include "backend/cuda/graphs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/tensors.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/note.h"
#include "record/record.h"

/* What was captured once, shared by the original node and its clones. */
struct shared {
	uint32_t references;
	struct tensor *tensor; /* an append of ours, which only brings a value; mostly NULL */
	struct captured captured;
};

struct node {
	uint32_t id; /* lower half of the node id; nodes of a graph are sorted by it */
	struct shared *shared;
};

struct graph {
	uint32_t id;
	bool is_destroyed;
	struct node *nodes;
	size_t count;
	size_t capacity;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct graph *graphs;                             /* sorted by id */
static size_t graph_count;
static size_t graph_capacity;
static bool stranger_was_noted;

/* Index of the first graph whose id is at least `id`. */
static size_t graph_index(uint32_t id)
{
	size_t low = 0;
	size_t high = graph_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (graphs[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct graph *find_graph(uint32_t id)
{
	size_t index = graph_index(id);

	return index < graph_count && graphs[index].id == id ? &graphs[index] : NULL;
}

static struct graph *add_graph(uint32_t id)
{
	size_t index = graph_index(id);

	if (index < graph_count && graphs[index].id == id)
		return &graphs[index];
	if (!array_reserve(&graphs, &graph_capacity, graph_count + 1, sizeof(*graphs)))
		return NULL;
	memmove(&graphs[index + 1], &graphs[index], (graph_count - index) * sizeof(*graphs));
	graphs[index] = (struct graph){.id = id};
	graph_count++;
	return &graphs[index];
}

static size_t node_index(const struct graph *graph, uint32_t id)
{
	size_t low = 0;
	size_t high = graph->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (graph->nodes[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct shared *find_node(uint64_t node_id)
{
	struct graph *graph = find_graph((uint32_t)(node_id >> 32));
	size_t index = graph ? node_index(graph, (uint32_t)node_id) : 0;

	if (!graph || index == graph->count || graph->nodes[index].id != (uint32_t)node_id)
		return NULL;
	return graph->nodes[index].shared;
}

static void release(struct shared *shared)
{
	if (--shared->references)
		return;
	if (shared->tensor)
		tensors_drop(shared->tensor);
	captured_free(&shared->captured);
	free(shared);
}

/* Remembers `shared` for a node, taking a reference. */
static void put_node(uint64_t node_id, struct shared *shared)
{
	struct graph *graph = add_graph((uint32_t)(node_id >> 32));
	size_t index = graph ? node_index(graph, (uint32_t)node_id) : 0;

	if (!graph)
		return;
	shared->references++;
	if (index < graph->count && graph->nodes[index].id == (uint32_t)node_id) {
		release(graph->nodes[index].shared);
		graph->nodes[index].shared = shared;
		return;
	}
	if (!array_reserve(&graph->nodes, &graph->capacity, graph->count + 1,
			   sizeof(*graph->nodes))) {
		release(shared);
		return;
	}
	memmove(&graph->nodes[index + 1], &graph->nodes[index],
		(graph->count - index) * sizeof(*graph->nodes));
	graph->nodes[index] = (struct node){.id = (uint32_t)node_id, .shared = shared};
	graph->count++;
}

static void free_nodes(struct graph *graph)
{
	for (size_t i = 0; i < graph->count; i++)
		release(graph->nodes[i].shared);
	free(graph->nodes);
}

static void on_node_created(const struct cupti_api *api, const struct cupti_graph_data *graph)
{
	struct shared *shared;
	uint64_t node_id;

	if (api->cuptiGetGraphNodeId(graph->node, &node_id) != CUPTI_OK)
		return;
	shared = calloc(1, sizeof(*shared));
	if (!shared)
		return;
	shared->tensor = tensors_hold_captured();
	/* Taken before the lock: it may ask Python for the call path. */
	if (!shared->tensor && !captured_take(&shared->captured)) {
		free(shared);
		return;
	}
	shared->references = 1;
	pthread_mutex_lock(&lock);
	put_node(node_id, shared);
	release(shared);
	pthread_mutex_unlock(&lock);
}

static void on_node_cloned(const struct cupti_api *api, const struct cupti_graph_data *graph)
{
	struct shared *shared;
	uint64_t node_id;
	uint64_t original_id;

	if (api->cuptiGetGraphNodeId(graph->node, &node_id) != CUPTI_OK ||
	    api->cuptiGetGraphNodeId(graph->original_node, &original_id) != CUPTI_OK)
		return;
	pthread_mutex_lock(&lock);
	shared = find_node(original_id);
	if (shared)
		put_node(node_id, shared);
	pthread_mutex_unlock(&lock);
}

static void on_destroyed(uint32_t id)
{
	struct graph *graph;

	pthread_mutex_lock(&lock);
	graph = find_graph(id);
	if (graph)
		graph->is_destroyed = true;
	pthread_mutex_unlock(&lock);
}

void graphs_on_resource(const struct cupti_api *api, uint32_t event,
			const struct cupti_graph_data *graph)
{
	uint32_t id;

	switch (event) {
	case CUPTI_RESOURCE_GRAPHNODE_CREATED:
		if (graph->node_type == CUDA_GRAPH_NODE_KERNEL)
			on_node_created(api, graph);
		break;
	case CUPTI_RESOURCE_GRAPHNODE_CLONED:
		if (graph->node_type == CUDA_GRAPH_NODE_KERNEL)
			on_node_cloned(api, graph);
		break;
	case CUPTI_RESOURCE_GRAPH_DESTROY_STARTING:
		if (api->cuptiGetGraphId(graph->graph, &id) == CUPTI_OK)
			on_destroyed(id);
		break;
	case CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING:
		if (api->cuptiGetGraphExecId(graph->graph_exec, &id) == CUPTI_OK)
			on_destroyed(id);
		break;
	default:
		break;
	}
}

void graphs_record(struct proton_context launch, uint64_t node_id,
		   const struct execution *execution)
{
	bool is_append = execution->frame == tensors_kernel_frame();
	struct shared *shared;

	pthread_mutex_lock(&lock);
	shared = find_node(node_id);
	if (shared)
		shared->references++;
	else if (!is_append && !stranger_was_noted) {
		stranger_was_noted = true;
		note("a CUDA graph that was captured before profiling started is replayed: its "
		     "kernels are shown by their names, below the replay");
	}
	pthread_mutex_unlock(&lock);
	if (!shared) {
		if (!is_append)
			record_kernel(launch, execution);
		return;
	}
	if (shared->tensor)
		tensors_executed(shared->tensor, launch, execution->start_ns);
	else
		captured_record(launch, &shared->captured, execution);
	pthread_mutex_lock(&lock);
	release(shared);
	pthread_mutex_unlock(&lock);
}

static void forget(bool all)
{
	size_t kept = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < graph_count; i++) {
		if (all || graphs[i].is_destroyed)
			free_nodes(&graphs[i]);
		else
			graphs[kept++] = graphs[i];
	}
	graph_count = kept;
	pthread_mutex_unlock(&lock);
}

void graphs_forget_destroyed(void)
{
	forget(false);
}

void graphs_clear(void)
{
	forget(true);
}
