/*
 * Graphs of the fake libcupti. Handles are ids: the upper half of a node's id is its graph's id.
 * An executable graph is a graph of cloned nodes. Child graphs and bodies of conditional nodes
 * are embedded: graphs with their own ids that are destroyed and cloned together with the graph
 * that contains them. Events come as from the driver: on the calling thread, and between the
 * driver's begin and end events where it has them.
 *
 * CUPTI patches an executable graph at its first replay with records and, while it is attached,
 * again at its first replay without. The context is lost (CUDA_ERROR_LAUNCH_FAILED at the next
 * replay) if cuptiFinalize() comes while a graph is patched for "without", or while one is being
 * replayed. A thread that is in a callback of a replay at that moment crashes afterwards (10 of 10
 * orders): here cuptiFinalize() aborts. All of it was measured on an H100 with CUPTI 13.0 and 13.5:
 * docs/design/other-tools.md.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "fake/cupti_state.h"
#include "fake/entries.h"

#define GRAPH_MAX (1u << 16)
#define NODE_GRAPH 4        /* CU_GRAPH_NODE_TYPE_GRAPH */
#define NODE_CONDITIONAL 13 /* CU_GRAPH_NODE_TYPE_CONDITIONAL */

/* Each is used by one thread at a time; other threads only search the table. */
struct graph {
	_Atomic uint32_t id;     /* 0: this entry is free; stored last */
	_Atomic uint32_t parent; /* index + 1 of the graph around; 0: none */
	uint32_t nodes;
	uint32_t source;     /* id of the graph from which it was made or last updated; 0: none */
	bool is_conditional; /* the body of a conditional node: runs only on request */
	_Atomic int patched; /* enum patch */
};

enum patch {
	PATCH_NONE,
	PATCH_ON,
	PATCH_OFF, /* after PATCH_ON */
};

#define LAUNCH_FAILED 719

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for allocating an entry */
static struct graph graphs[GRAPH_MAX];
static _Atomic uint32_t high;
static uint32_t next_id = 1000;
static _Atomic uint32_t replaying; /* threads */
static _Atomic uint32_t reporting; /* threads in callbacks of replays */
static _Atomic bool is_damaged;    /* the next replay fails */
static _Atomic int result;         /* of the last replay */

static uint64_t node_id(const struct graph *graph, uint32_t index)
{
	return (uint64_t)graph->id << 32 | index;
}

static void notify(uint32_t event, const struct cupti_graph_data *data)
{
	struct cupti_resource_data resource = {.resource_descriptor = (void *)(uintptr_t)data};

	subscribe_notify(CUPTI_DOMAIN_RESOURCE, event, &resource);
}

static void report_graph(uint32_t event, uint32_t id)
{
	notify(event, &(struct cupti_graph_data){.graph = (void *)(uintptr_t)id,
						 .graph_exec = (void *)(uintptr_t)id});
}

static void report_node(uint32_t event, uint64_t node, uint64_t original)
{
	notify(event, &(struct cupti_graph_data){
			      .graph = (void *)(uintptr_t)(node >> 32),
			      .original_graph = (void *)(uintptr_t)(original >> 32),
			      .node = (void *)(uintptr_t)node,
			      .original_node = (void *)(uintptr_t)original,
			      .node_type = CUDA_GRAPH_NODE_KERNEL,
		      });
}

/* Index of a new graph within `parent` (index + 1, or 0). */
static uint32_t new_graph(uint32_t parent, bool is_conditional)
{
	uint32_t at = 0;

	pthread_mutex_lock(&lock);
	while (at < GRAPH_MAX && graphs[at].id)
		at++;
	if (at == GRAPH_MAX)
		abort();
	if (at >= high)
		high = at + 1;
	graphs[at].parent = parent;
	graphs[at].nodes = 0;
	graphs[at].source = 0;
	graphs[at].is_conditional = is_conditional;
	graphs[at].patched = PATCH_NONE;
	graphs[at].id = next_id++;
	pthread_mutex_unlock(&lock);
	return at;
}

static uint32_t find(uint32_t id)
{
	uint32_t at = 0;

	while (at < high && graphs[at].id != id)
		at++;
	if (at == high)
		abort();
	return at;
}

/* Clones the nodes of `from` and, below it, of what is embedded in it. */
static void clone_into(uint32_t to, uint32_t from)
{
	for (uint32_t i = 0; i < graphs[from].nodes; i++)
		report_node(CUPTI_RESOURCE_GRAPHNODE_CLONED, node_id(&graphs[to], i),
			    node_id(&graphs[from], i));
	graphs[to].nodes = graphs[from].nodes;
	graphs[to].source = graphs[from].id;
	for (uint32_t child = 0; child < high; child++)
		if (graphs[child].id && graphs[child].parent == from + 1 && child != to)
			clone_into(new_graph(to + 1, graphs[child].is_conditional), child);
}

static void drop(uint32_t at)
{
	for (uint32_t child = 0; child < high; child++)
		if (graphs[child].id && graphs[child].parent == at + 1)
			drop(child);
	graphs[at].parent = 0;
	graphs[at].id = 0;
}

FAKE_EXPORT uint32_t fake_graph_create(void)
{
	uint32_t at = new_graph(0, false);

	report_graph(CUPTI_RESOURCE_GRAPH_CREATED, graphs[at].id);
	return graphs[at].id;
}

FAKE_EXPORT uint64_t fake_graph_add_kernel(uint32_t graph)
{
	uint32_t at = find(graph);
	uint64_t node = node_id(&graphs[at], graphs[at].nodes++);

	report_node(CUPTI_RESOURCE_GRAPHNODE_CREATE_STARTING, node, 0);
	report_node(CUPTI_RESOURCE_GRAPHNODE_CREATED, node, 0);
	return node;
}

FAKE_EXPORT uint64_t fake_graph_capture_kernel(uint32_t graph, const char *name)
{
	uint32_t at = find(graph);
	uint64_t node = node_id(&graphs[at], graphs[at].nodes++);

	fake_launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL, .name = name, .captures = node});
	return node;
}

/* A node with an embedded graph: the graph's events come between its begin and end. */
static uint32_t add_embedded(uint32_t graph, int node_type)
{
	uint32_t around = find(graph);

	notify(CUPTI_RESOURCE_GRAPHNODE_CREATE_STARTING,
	       &(struct cupti_graph_data){.graph = (void *)(uintptr_t)graph,
					  .node_type = node_type});
	return new_graph(around + 1, node_type == NODE_CONDITIONAL);
}

static void end_embedded(uint32_t graph, int node_type)
{
	/* A node that is not a kernel; its number follows those of the kernels. */
	notify(CUPTI_RESOURCE_GRAPHNODE_CREATED,
	       &(struct cupti_graph_data){.graph = (void *)(uintptr_t)graph,
					  .node = (void *)(uintptr_t)((uint64_t)graph << 32 |
								      1u << 31),
					  .node_type = node_type});
}

FAKE_EXPORT uint32_t fake_graph_add_child(uint32_t graph, uint32_t child)
{
	uint32_t at = add_embedded(graph, NODE_GRAPH);

	clone_into(at, find(child));
	end_embedded(graph, NODE_GRAPH);
	return graphs[at].id;
}

FAKE_EXPORT uint32_t fake_graph_add_body(uint32_t graph)
{
	uint32_t at = add_embedded(graph, NODE_CONDITIONAL);

	report_graph(CUPTI_RESOURCE_GRAPH_CREATED, graphs[at].id);
	end_embedded(graph, NODE_CONDITIONAL);
	return graphs[at].id;
}

FAKE_EXPORT uint32_t fake_graph_clone(uint32_t graph)
{
	uint32_t at = new_graph(0, false);

	clone_into(at, find(graph));
	report_graph(CUPTI_RESOURCE_GRAPH_CLONED, graphs[at].id);
	return graphs[at].id;
}

FAKE_EXPORT uint32_t fake_graph_instantiate(uint32_t graph)
{
	uint32_t at = new_graph(0, false);

	report_graph(CUPTI_RESOURCE_GRAPHEXEC_CREATE_STARTING, 0);
	clone_into(at, find(graph));
	report_graph(CUPTI_RESOURCE_GRAPHEXEC_CREATED, graphs[at].id);
	return graphs[at].id;
}

FAKE_EXPORT void fake_graph_update(uint32_t exec, uint32_t graph)
{
	uint32_t to = find(exec);
	uint32_t from = find(graph);

	graphs[to].source = graph;
	/* Versions before 13.0 have no event for this. */
	for (uint32_t i = 0; version_code() >= 130000 && i < graphs[from].nodes; i++)
		report_node(CUPTI_RESOURCE_GRAPHNODE_UPDATED, node_id(&graphs[to], i),
			    node_id(&graphs[from], i));
}

uint64_t graphs_source(uint64_t node)
{
	uint32_t id = (uint32_t)(node >> 32);

	/* Without a graph: 0 is the id of free entries, which other threads may take now. */
	if (!id)
		return 0;
	for (uint32_t at = 0; at < high; at++)
		if (graphs[at].id == id && graphs[at].source)
			return (uint64_t)graphs[at].source << 32 | (uint32_t)node;
	return 0;
}

static void run(uint32_t at, struct cupti_kernel *kernel, bool runs_bodies)
{
	for (uint32_t i = 0; i < graphs[at].nodes; i++) {
		kernel->graph_node_id = node_id(&graphs[at], i);
		records_add(kernel, sizeof(*kernel));
	}
	for (uint32_t child = 0; child < high; child++)
		if (graphs[child].id && graphs[child].parent == at + 1 &&
		    (runs_bodies || !graphs[child].is_conditional))
			run(child, kernel, runs_bodies);
}

static void patch(struct graph *graph)
{
	if (records_are_enabled(CUPTI_KIND_CONCURRENT_KERNEL))
		graph->patched = PATCH_ON;
	else if (!subscribe_is_detached() && graph->patched == PATCH_ON)
		graph->patched = PATCH_OFF;
}

void graphs_left(void)
{
	bool is_off = atomic_load(&replaying) != 0;

	if (atomic_load(&reporting)) {
		fprintf(stderr, "fake: cuptiFinalize while a thread is in a callback\n");
		abort();
	}
	for (uint32_t at = 0; at < high; at++) {
		is_off |= graphs[at].id && graphs[at].patched == PATCH_OFF;
		graphs[at].patched = PATCH_NONE;
	}
	if (is_off)
		atomic_store(&is_damaged, true);
}

bool graphs_are_lost(void)
{
	return atomic_load(&result) == LAUNCH_FAILED;
}

FAKE_EXPORT int fake_graph_result(void)
{
	return atomic_load(&result);
}

static void report_launch(const struct cupti_callback_data *data)
{
	atomic_fetch_add(&reporting, 1);
	subscribe_notify(CUPTI_DOMAIN_DRIVER_API, CUPTI_CALL_GRAPH_LAUNCH, data);
	atomic_fetch_sub(&reporting, 1);
}

static uint32_t launch(uint32_t exec, const char *name, bool runs_bodies, void (*inside)(void),
		       void (*after)(void))
{
	const void *params[] = {(void *)(uintptr_t)exec, NULL};
	uint64_t now_ns = clock_monotonic_ns();
	struct cupti_callback_data data = {
		.context = graphs, /* the only context that runs graphs */
		.correlation_id = subscribe_next_correlation(),
		.function_params = params,
	};
	struct cupti_kernel kernel = {
		.kind = CUPTI_KIND_CONCURRENT_KERNEL,
		.start_ns = now_ns,
		.end_ns = now_ns + 2,
		.correlation_id = data.correlation_id,
		.name = name,
	};

	report_launch(&data);
	atomic_fetch_add(&replaying, 1);
	subscribe_change(true);
	pc_sampling_busy(true);
	pc_sampling_replay();
	patch(&graphs[find(exec)]);
	if (inside)
		inside();
	if (atomic_load(&is_damaged))
		atomic_store(&result, LAUNCH_FAILED);
	if (records_are_enabled(CUPTI_KIND_CONCURRENT_KERNEL) && !graphs_are_lost()) {
		records_prepare();
		run(find(exec), &kernel, runs_bodies);
	}
	pc_sampling_busy(false);
	subscribe_change(false);
	data.site = CUPTI_SITE_EXIT;
	report_launch(&data);
	if (after)
		after();
	atomic_fetch_sub(&replaying, 1);
	return data.correlation_id;
}

FAKE_EXPORT uint32_t fake_graph_launch(uint32_t exec, const char *name, bool runs_bodies)
{
	return launch(exec, name, runs_bodies, NULL, NULL);
}

FAKE_EXPORT uint32_t fake_graph_launch_around(uint32_t exec, const char *name, void (*inside)(void))
{
	return launch(exec, name, false, inside, NULL);
}

FAKE_EXPORT uint32_t fake_graph_launch_leaving(uint32_t exec, const char *name, void (*after)(void))
{
	return launch(exec, name, false, NULL, after);
}

FAKE_EXPORT void fake_graph_destroy(uint32_t graph)
{
	report_graph(CUPTI_RESOURCE_GRAPH_DESTROY_STARTING, graph);
	drop(find(graph));
}

FAKE_EXPORT void fake_graph_exec_destroy(uint32_t exec)
{
	report_graph(CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING, exec);
	drop(find(exec));
}

FAKE_EXPORT void fake_graph_event(uint32_t event, uint64_t node, uint64_t original, int node_type)
{
	notify(event, &(struct cupti_graph_data){
			      .graph = (void *)(uintptr_t)(node >> 32),
			      .node = (void *)(uintptr_t)node,
			      .original_node = (void *)(uintptr_t)original,
			      .node_type = node_type,
			      .graph_exec = (void *)(uintptr_t)(node >> 32),
		      });
}

int fake_cuptiGetGraphNodeId(void *node, uint64_t *id)
{
	*id = (uint64_t)(uintptr_t)node;
	return CUPTI_OK;
}

int fake_cuptiGetGraphId(void *graph, uint32_t *id)
{
	*id = (uint32_t)(uintptr_t)graph;
	return CUPTI_OK;
}

int fake_cuptiGetGraphExecId(void *graph_exec, uint32_t *id)
{
	return fake_cuptiGetGraphId(graph_exec, id);
}
