/*
 * Work captured in graphs, by node id.
 *
 * No record carries the id of a graph that is not executable: it is freed when it is destroyed. An
 * executable graph may be destroyed while its replays still run, so it is only put on record as
 * destroyed and freed after a flush. A program that captures repeatedly and never flushes is made
 * to flush periodically, from an API callback, where the vendor's library allows it.
 */
#include "backend/gpu/captured_nodes.h"

#include "backend/gpu/records.h"
#include "backend/gpu/tensors.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/mutex.h"
#include "record/record.h"

/* Maximum number of destroyed graphs for a flush, and maximum duration of a last replay. */
#define DESTROYED_MAX 256u
#define PATIENCE_NS 2000000000ull

/* Captured data, shared by the original node and its clones. */
struct shared {
	uint32_t references;
	struct tensor *tensor; /* the append that only reads a metric value; mostly NULL */
	uint64_t crc;          /* the cubin's, for PC sampling; 0: not known */
	struct captured captured;
};

struct node {
	uint32_t id; /* lower half of the node id; nodes of a graph are sorted by it */
	struct shared *shared;
};

struct graph {
	uint32_t id;
	uint32_t owner; /* the graph that owns it; 0: none */
	bool is_executable;
	uint64_t destroyed_ns; /* 0: it exists */
	struct node *nodes;
	size_t count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static struct graph *graphs;                             /* sorted by id */
static size_t graph_count;
static size_t owned_count;     /* graphs with an owner */
static size_t destroyed_count; /* number of destroyed graphs in the table */
static uint64_t asked_ns;      /* time of the last requested flush */
static uint64_t patience_ns = PATIENCE_NS;
static bool stranger_was_noted;
static size_t differing_count;

static _Atomic bool is_flush_due;

/* Index of the first graph with an id of at least `id`. */
static size_t graph_index(uint32_t id)
{
	return ARRAY_COUNT_BEFORE(graph_count, i, graphs[i].id < id);
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
	return ARRAY_INSERT(graphs, graph_count, index, (struct graph){.id = id}) ? &graphs[index]
										  : NULL;
}

static size_t node_index(const struct graph *graph, uint32_t id)
{
	return ARRAY_COUNT_BEFORE(graph->count, i, graph->nodes[i].id < id);
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

/* Stores `shared` for a node, taking a reference. */
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
	if (!ARRAY_INSERT(graph->nodes, graph->count, index,
			  (struct node){.id = (uint32_t)node_id, .shared = shared}))
		release(shared);
}

void captured_nodes_own(uint32_t id, uint32_t owner, bool is_new)
{
	MUTEX_HOLD(&lock);
	struct graph *graph = is_new ? add_graph(id) : find_graph(id);

	if (graph && !graph->owner && id != owner) {
		graph->owner = owner;
		owned_count++;
	}
}

uint32_t captured_nodes_owner(uint32_t id)
{
	MUTEX_HOLD(&lock);
	const struct graph *graph = find_graph(id);
	uint32_t owner = graph ? graph->owner : 0;

	return owner;
}

void captured_nodes_set_executable(uint32_t id)
{
	MUTEX_HOLD(&lock);
	struct graph *graph = find_graph(id);

	if (graph)
		graph->is_executable = true;
}

/* The last kernel node captured on this thread, in its open capture. */
static _Thread_local uint64_t last_captured;

void captured_nodes_begin_capture(void)
{
	last_captured = 0;
}

void captured_nodes_end_capture(void)
{
	size_t held = captured_held();
	bool is_taken = false;

	if (!held)
		return;
	pthread_mutex_lock(&lock);
	struct shared *shared = last_captured ? find_node(last_captured) : NULL;
	/* No thread reads it yet: a graph does not run before its capture has ended. */
	if (shared)
		is_taken = captured_take_rest(&shared->captured);
	pthread_mutex_unlock(&lock);
	if (!is_taken)
		record_count(COUNTER_LOST_VALUE, held);
}

void captured_nodes_add(uint64_t node_id, bool is_kernel, uint64_t crc)
{
	struct shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return;
	if (is_kernel)
		shared->tensor = tensors_hold_captured();
	/* Taken before the lock: it may ask Python for the call path. */
	if (!shared->tensor && !captured_take(&shared->captured, is_kernel)) {
		free(shared);
		return;
	}
	shared->references = 1;
	shared->crc = crc;
	if (is_kernel && !shared->tensor && captured_is_on())
		last_captured = node_id;
	MUTEX_HOLD(&lock);
	put_node(node_id, shared);
	release(shared);
}

void captured_nodes_clone(uint64_t clone, uint64_t original)
{
	MUTEX_HOLD(&lock);
	struct shared *shared = find_node(original);

	if (shared)
		put_node(clone, shared);
}

uint64_t captured_nodes_origin(uint64_t node, uint64_t source)
{
	MUTEX_HOLD(&lock);
	const struct shared *by_source = find_node(source);
	const struct shared *by_events = find_node(node);
	if (by_source && by_events && by_source != by_events)
		differing_count++;
	return by_source ? source : node;
}

static void free_nodes(struct graph *graph)
{
	for (size_t i = 0; i < graph->count; i++)
		release(graph->nodes[i].shared);
	free(graph->nodes);
	owned_count -= graph->owner != 0;
	destroyed_count -= graph->destroyed_ns != 0;
}

/* Frees graphs destroyed before a time. The table is locked. */
static void forget_before(uint64_t before_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < graph_count; i++) {
		if (graphs[i].destroyed_ns && graphs[i].destroyed_ns < before_ns)
			free_nodes(&graphs[i]);
		else
			graphs[kept++] = graphs[i];
	}
	graph_count = kept;
}

static void mark_node(struct graph *graph, uint64_t now_ns)
{
	if (graph->destroyed_ns)
		return;
	graph->destroyed_ns = now_ns;
	destroyed_count++;
}

void captured_nodes_destroy(uint32_t id, bool is_executable)
{
	uint64_t now_ns = clock_monotonic_ns();
	MUTEX_HOLD(&lock);
	struct graph *graph = find_graph(id);

	is_executable = is_executable || (graph && graph->is_executable);
	if (graph)
		mark_node(graph, is_executable ? now_ns : 1);
	for (size_t i = 0; owned_count && i < graph_count; i++)
		if (graphs[i].owner == id)
			mark_node(&graphs[i], is_executable ? now_ns : 1);
	if (!is_executable)
		forget_before(2);
	if (destroyed_count >= DESTROYED_MAX && now_ns - asked_ns >= patience_ns)
		atomic_store_explicit(&is_flush_due, true, memory_order_relaxed);
}

void captured_nodes_flush_if_due(void)
{
	if (!atomic_load_explicit(&is_flush_due, memory_order_relaxed) ||
	    !atomic_exchange(&is_flush_due, false))
		return;
	uint64_t now_ns = clock_monotonic_ns();
	if (!await_records_ask()) {
		atomic_store_explicit(&is_flush_due, true, memory_order_relaxed);
		return;
	}
	MUTEX_HOLD(&lock);
	/* This flush's records may arrive later: frees graphs that were old at the last one. */
	if (asked_ns > patience_ns)
		forget_before(asked_ns - patience_ns);
	asked_ns = now_ns;
}

void captured_nodes_record(struct proton_context launch, uint64_t node_id,
			   const struct execution *execution)
{
	bool is_shown = execution && !tensors_is_append(execution->frame);

	pthread_mutex_lock(&lock);
	struct shared *shared = find_node(node_id);
	if (shared)
		shared->references++;
	else if (is_shown && !stranger_was_noted) {
		stranger_was_noted = true;
		/* Begins and ends as upstream's message, which users search for. */
		message("Cannot find graph for graphExecId: %u: it was captured before profiling "
			"started, and its kernels are shown by their names, below the replay; "
			"start profiling before the graph is created",
			(unsigned)(node_id >> 32));
	}
	pthread_mutex_unlock(&lock);
	if (!shared) {
		if (is_shown)
			record_kernel(launch, execution);
		return;
	}
	if (!execution)
		captured_record_metrics(launch, &shared->captured);
	else if (shared->tensor)
		tensors_executed(shared->tensor, launch, execution->start_ns);
	else
		captured_record(launch, &shared->captured, execution);
	pthread_mutex_lock(&lock);
	release(shared);
	pthread_mutex_unlock(&lock);
}

uint64_t captured_nodes_crc(uint64_t node_id)
{
	MUTEX_HOLD(&lock);
	const struct shared *shared = find_node(node_id);
	uint64_t crc = shared ? shared->crc : 0;

	return crc;
}

void captured_nodes_forget_destroyed(uint64_t before_ns)
{
	MUTEX_HOLD(&lock);
	forget_before(before_ns);
}

void captured_nodes_clear(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < graph_count; i++)
		free_nodes(&graphs[i]);
	graph_count = 0;
	stranger_was_noted = false;
	differing_count = 0;
	pthread_mutex_unlock(&lock);
	atomic_store(&is_flush_due, false);
}

size_t captured_nodes_count(void)
{
	size_t count = 0;

	MUTEX_HOLD(&lock);
	for (size_t i = 0; i < graph_count; i++)
		count += graphs[i].count;
	return count;
}

size_t captured_nodes_differing(void)
{
	MUTEX_HOLD(&lock);
	return differing_count;
}

void captured_nodes_set_patience(uint64_t ns)
{
	MUTEX_HOLD(&lock);
	patience_ns = ns;
}
