/* Totals of one launch: counts, sums and histograms per node of the scope tree. */
#include "backend/intra/launch_totals.h"

#include "base/array.h"

#define NODES_MAX 4096u

/* ------------------------------------------------------------------ nodes */

static void free_nodes(struct launch_totals *totals)
{
	for (uint32_t i = 0; i < totals->node_count; i++) {
		free(totals->nodes[i].histogram);
		free(totals->nodes[i].children);
	}
	totals->node_count = 0;
}

bool launch_totals_begin(struct launch_totals *totals, const struct kernel *kernel,
			 struct proton_context where)
{
	/* Consecutive launches of one kernel usually have the same tree. */
	if (totals->kernel != kernel || !totals->is_new)
		free_nodes(totals);
	if (!array_reserve(&totals->nodes, &totals->node_capacity, 1, sizeof(*totals->nodes)))
		return false;
	totals->kernel = kernel;
	totals->is_new = false;
	if (!totals->node_count)
		totals->nodes[totals->node_count++] = (struct launch_node){0};
	totals->nodes[0].where = where;
	return true;
}

uint32_t launch_totals_child(struct launch_totals *totals, uint32_t parent, uint32_t scope)
{
	uint32_t at = totals->node_count;
	struct launch_node *node = &totals->nodes[parent];

	if (node->children && node->children[scope])
		return node->children[scope];
	if (at == NODES_MAX || !array_reserve(&totals->nodes, &totals->node_capacity,
					      (size_t)at + 1, sizeof(*totals->nodes)))
		return parent;
	node = &totals->nodes[parent];
	if (!node->children)
		node->children = calloc(totals->kernel->layout.scope_count, sizeof(uint32_t));
	uint32_t *histogram = calloc(CYCLE_BUCKETS, sizeof(*histogram));
	if (!node->children || !histogram) {
		free(histogram);
		return parent;
	}
	totals->nodes[at] = (struct launch_node){
		.parent = parent,
		.scope = scope,
		.min = UINT64_MAX,
		.histogram = histogram,
	};
	node->children[scope] = at;
	totals->node_count++;
	return at;
}

/* ------------------------------------------------------------------ adding */

static inline void add_to(struct launch_node *node, const struct decode_execution *execution)
{
	uint64_t cycles = execution->duration;

	if (execution->is_partial) {
		node->partial++;
		node->partial_cycles += cycles;
		return;
	}
	node->count++;
	node->cycles += cycles;
	if (cycles < node->min)
		node->min = cycles;
	if (cycles > node->max)
		node->max = cycles;
	node->histogram[cycle_bucket(cycles)]++;
}

/* Adds the executions of a sum. */
static void add_sum(struct launch_node *node, const struct decode_sum *sum)
{
	if (sum->is_partial) {
		node->partial += sum->count;
		node->partial_cycles += sum->cycles;
		return;
	}
	node->count += sum->count;
	node->cycles += sum->cycles;
	if (sum->min == UINT64_MAX)
		node->unbounded += sum->count;
	if (sum->count > 1)
		node->unsorted += sum->count;
	if (sum->min == UINT64_MAX)
		return;
	if (sum->min < node->min)
		node->min = sum->min;
	if (sum->max > node->max)
		node->max = sum->max;
	if (sum->count == 1)
		node->histogram[cycle_bucket(sum->min)]++;
}

/* Adds the sums of a unit: a tree, with parents first. */
static void add_sums(struct launch_totals *totals, const struct instrument_layout *layout,
		     const struct decode_sum *sums)
{
	uint32_t node_of[INSTRUMENT_SUM_MAX];

	for (uint32_t i = 0; i < layout->sum_count; i++) {
		uint16_t outer = sums[i].parent;
		uint32_t parent = outer == INSTRUMENT_NO_SUM ? 0 : node_of[outer];
		const uint32_t *children = totals->nodes[parent].children;
		uint32_t node = children ? children[layout->sums[i].scope] : 0;

		if (!node && sums[i].count)
			node = launch_totals_child(totals, parent, layout->sums[i].scope);
		node_of[i] = node ? node : parent;
		if (!sums[i].count || node == parent)
			continue;
		add_sum(&totals->nodes[node], &sums[i]);
	}
}

bool launch_totals_add(struct launch_totals *totals, const struct decoder *decoder)
{
	const struct decode_execution *executions = decoder->executions;
	struct launch_node *nodes = totals->nodes;

	if (decoder->layout->sum_count) {
		for (uint32_t u = 0; u < decoder->layout->unit_count; u++)
			if (decoder->units[u].is_there)
				add_sums(totals, decoder->layout,
					 decoder->sums + (size_t)u * decoder->layout->sum_count);
		return true;
	}
	if (!array_reserve(&totals->node_of, &totals->node_of_capacity,
			   decoder->execution_count + 1, sizeof(*totals->node_of)))
		return false;
	uint32_t *node_of = totals->node_of;
	for (size_t i = 0, count = decoder->execution_count; i < count; i++) {
		const struct decode_execution *execution = &executions[i];
		uint32_t parent = execution->parent == DECODE_NONE ? 0 : node_of[execution->parent];
		const uint32_t *children = nodes[parent].children;
		uint32_t node = children ? children[execution->scope] : 0;

		if (!node) {
			node = launch_totals_child(totals, parent, execution->scope);
			nodes = totals->nodes;
		}
		node_of[i] = node;
		if (node != parent)
			add_to(&nodes[node], execution);
	}
	return true;
}

void launch_totals_reset(struct launch_totals *totals)
{
	for (uint32_t i = 0; i < totals->node_count; i++) {
		struct launch_node *node = &totals->nodes[i];

		if (node->count && node->min != UINT64_MAX)
			memset(node->histogram + cycle_bucket(node->min), 0,
			       (cycle_bucket(node->max) - cycle_bucket(node->min) + 1) *
				       sizeof(*node->histogram));
		memset(node, 0, offsetof(struct launch_node, histogram));
		node->min = UINT64_MAX;
	}
	totals->is_new = true;
}

void launch_totals_fini(struct launch_totals *totals)
{
	free_nodes(totals);
	free(totals->nodes);
	free(totals->node_of);
	*totals = (struct launch_totals){0};
}
