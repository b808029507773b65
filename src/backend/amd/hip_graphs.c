/*
 * HIP graphs: captures, graphs and executable graphs, by their handles.
 *
 * A capture belongs to streams, not to threads: PyTorch captures a backward pass on another thread.
 * So the driver is asked about the stream of each launch while any capture is open.
 */
#include "backend/amd/hip_graphs.h"

#include "backend/gpu/captured_nodes.h"
#include "base/array.h"
#include "base/mutex.h"
#include "driver/hip_functions.h"
#include "record/record.h"
#include "record/thread/captured.h"

/* Plans by handle, or by a capture's number; sorted. */
struct table {
	struct row {
		uint64_t key;
		struct hip_plan *plan;
	} * rows;
	size_t count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static struct table captures;
static struct table graphs;
static struct table execs;
static uint32_t last_id;

/* The capture that the calling thread ends. */
static _Thread_local uint64_t ending;

/* ------------------------------------------------------------------ plans */

static struct hip_plan *new_plan(bool is_known)
{
	struct hip_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->references = 1;
	plan->id = ++last_id;
	plan->is_known = is_known;
	return plan;
}

static void release(struct hip_plan *plan)
{
	if (!plan || --plan->references)
		return;
	free(plan->kinds);
	free(plan);
}

/* The node's index + 1; 0: out of memory. */
static size_t add_node(struct hip_plan *plan, enum hip_node kind)
{
	if (!ARRAY_ADD(plan->kinds, plan->count, (uint8_t)kind))
		return 0;
	plan->kernels += kind == HIP_NODE_KERNEL;
	plan->memory += kind == HIP_NODE_MEMORY || kind == HIP_NODE_OWN;
	plan->appends += kind == HIP_NODE_APPEND;
	return plan->count;
}

static size_t row_index(const struct table *table, uint64_t key)
{
	return ARRAY_COUNT_BEFORE(table->count, i, table->rows[i].key < key);
}

static struct hip_plan *find_plan(const struct table *table, uint64_t key)
{
	size_t index = row_index(table, key);

	if (index == table->count || table->rows[index].key != key)
		return NULL;
	return table->rows[index].plan;
}

/* Takes the plan over. */
static void put_plan(struct table *table, uint64_t key, struct hip_plan *plan)
{
	size_t index = row_index(table, key);

	if (!ARRAY_INSERT(table->rows, table->count, index, (struct row){.key = key, .plan = plan}))
		release(plan);
}

/* The caller owns the result. */
static struct hip_plan *take_plan(struct table *table, uint64_t key)
{
	size_t index = row_index(table, key);
	struct hip_plan *plan = find_plan(table, key);

	if (!plan)
		return NULL;
	ARRAY_REMOVE(table->rows, table->count, index);
	return plan;
}

static void forget_plan(struct table *table, uint64_t key, bool is_executable)
{
	struct hip_plan *plan = take_plan(table, key);

	if (plan)
		captured_nodes_destroy(plan->id, is_executable);
	release(plan);
}

/* A plan with the same nodes, which share what was captured. */
static struct hip_plan *copy_plan(const struct hip_plan *original)
{
	struct hip_plan *plan = new_plan(true);

	for (size_t i = 0; plan && i < original->count; i++) {
		if (!add_node(plan, original->kinds[i])) {
			release(plan);
			return NULL;
		}
		captured_nodes_clone(hip_plan_node(plan, i), hip_plan_node(original, i));
	}
	return plan;
}

/* Replaces what is known about `key`: HIP uses handles again. */
static void copy_graph(struct table *to, uint64_t key, uint64_t graph)
{
	struct hip_plan *plan = NULL;

	if (!key)
		return;
	MUTEX_HOLD(&lock);
	forget_plan(to, key, to == &execs);
	const struct hip_plan *original = find_plan(&graphs, graph);
	if (original)
		plan = copy_plan(original);
	if (plan)
		put_plan(to, key, plan);
}

const struct hip_plan *hip_graphs_plan(uint64_t exec)
{
	MUTEX_HOLD(&lock);
	struct hip_plan *plan = find_plan(&execs, exec);

	if (!plan) {
		plan = new_plan(false);
		if (plan)
			put_plan(&execs, exec, plan);
		plan = find_plan(&execs, exec);
	}
	if (plan)
		plan->references++;
	return plan;
}

void hip_graphs_release(const struct hip_plan *plan)
{
	MUTEX_HOLD(&lock);
	release((struct hip_plan *)(uintptr_t)plan);
}

/* ------------------------------------------------------------------ captures */

static void begin_capture(uint64_t stream)
{
	uint64_t number;

	if (!hip_streams_capture(stream, &number))
		return;
	captured_nodes_begin_capture();
	captured_begin(number);
	MUTEX_HOLD(&lock);
	forget_plan(&captures, number, false);
	struct hip_plan *plan = new_plan(true);
	if (plan)
		put_plan(&captures, number, plan);
}

/* An ended capture is a graph, unless it failed. */
static void end_capture(uint64_t graph)
{
	if (graph)
		captured_nodes_end_capture();
	captured_end(ending);
	pthread_mutex_lock(&lock);
	struct hip_plan *plan = take_plan(&captures, ending);
	if (plan && graph) {
		forget_plan(&graphs, graph, false);
		put_plan(&graphs, graph, plan);
	} else if (plan) {
		captured_nodes_destroy(plan->id, false);
		release(plan);
	}
	pthread_mutex_unlock(&lock);
	ending = 0;
}

/* Adds a node to the stream's capture; its id, 0 if there is none. */
static uint64_t capture(uint64_t number, enum hip_node kind)
{
	uint64_t node = 0;
	MUTEX_HOLD(&lock);
	struct hip_plan *plan = find_plan(&captures, number);
	size_t index = plan ? add_node(plan, kind) : 0;

	if (index)
		node = hip_plan_node(plan, index - 1);
	return node;
}

bool hip_graphs_take(uint64_t stream, enum hip_node kind)
{
	uint64_t number;

	if (!captured_any_open() || !hip_streams_capture(stream, &number))
		return false;
	if (kind != HIP_NODE_APPEND && record_is_own_work())
		kind = HIP_NODE_OWN;
	uint64_t node = capture(number, kind);
	if (node && kind != HIP_NODE_OWN)
		captured_nodes_add(node, kind != HIP_NODE_MEMORY, 0);
	return true;
}

/* ------------------------------------------------------------------ calls */

enum hip_graph_call hip_graphs_call(const char *name)
{
	static const struct {
		const char *name;
		enum hip_graph_call call;
	} calls[] = {
#define CALL(name, call) {#name, call},
		HIP_GRAPH_CALLS(CALL)
#undef CALL
	};

	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].call;
	return HIP_GRAPH_CALL_NONE;
}

/* The handle that the call has stored at its pointer argument; 0: none. */
static uint64_t stored_handle(uint64_t pointer)
{
	uint64_t handle = 0;

	if (pointer)
		memcpy(&handle, (const void *)(uintptr_t)pointer, sizeof(handle));
	return handle;
}

static void on_enter(enum hip_graph_call call, const uint64_t arguments[static 1])
{
	if (call == HIP_GRAPH_END_CAPTURE && !hip_streams_capture(arguments[0], &ending))
		ending = 0;
	/* The handles may be in use again before the call has returned. */
	MUTEX_HOLD(&lock);
	if (call == HIP_GRAPH_DESTROY_EXEC)
		forget_plan(&execs, arguments[0], true);
	else if (call == HIP_GRAPH_DESTROY)
		forget_plan(&graphs, arguments[0], false);
}

void hip_graphs_on_call(enum hip_graph_call call, const void *arguments_of, bool has_pointees,
			bool is_enter, bool has_failed)
{
	const uint64_t *arguments = arguments_of;
	uint64_t after_pointer = arguments[has_pointees ? 2 : 1];

	if (is_enter)
		on_enter(call, arguments);
	if (is_enter || (has_failed && call != HIP_GRAPH_END_CAPTURE))
		return;
	switch (call) {
	case HIP_GRAPH_BEGIN_CAPTURE:
		begin_capture(arguments[0]);
		break;
	case HIP_GRAPH_END_CAPTURE:
		end_capture(has_failed ? 0 : stored_handle(arguments[1]));
		break;
	case HIP_GRAPH_INSTANTIATE:
		copy_graph(&execs, stored_handle(arguments[0]), after_pointer);
		break;
	case HIP_GRAPH_UPDATE:
		copy_graph(&execs, arguments[0], arguments[1]);
		break;
	case HIP_GRAPH_CLONE:
		copy_graph(&graphs, stored_handle(arguments[0]), after_pointer);
		break;
	default:
		break;
	}
}

static void clear_plans(struct table *table)
{
	for (size_t i = 0; i < table->count; i++)
		release(table->rows[i].plan);
	free(table->rows);
	*table = (struct table){0};
}

void hip_graphs_clear(void)
{
	MUTEX_HOLD(&lock);
	clear_plans(&captures);
	clear_plans(&graphs);
	clear_plans(&execs);
}
