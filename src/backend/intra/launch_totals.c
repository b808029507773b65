/* One launch added up. See launch_totals.h. */
#include "backend/intra/launch_totals.h"

#include <stdlib.h>
#include <string.h>

#include "backend/intra/cycle_histogram.h"
#include "base/array.h"

#define NODES_MAX 4096u

/* ------------------------------------------------------------------ nodes */

static void free_nodes(struct tally *tally)
{
	for (uint32_t i = 0; i < tally->node_count; i++) {
		free(tally->nodes[i].histogram);
		free(tally->nodes[i].children);
	}
	tally->node_count = 0;
}

bool tally_begin(struct tally *tally, const struct kernel *kernel, struct proton_context where)
{
	/* Launches of one kernel mostly have the same tree. */
	if (tally->kernel != kernel || !tally->is_new)
		free_nodes(tally);
	if (!array_reserve(&tally->nodes, &tally->node_capacity, 1, sizeof(*tally->nodes)))
		return false;
	tally->kernel = kernel;
	tally->where = where;
	tally->is_new = false;
	if (!tally->node_count)
		tally->nodes[tally->node_count++] = (struct tally_node){0};
	tally->nodes[0].where = where;
	return true;
}

/* The child of `parent` for `scope`; the parent itself when there is no room for more. */
static uint32_t make_child(struct tally *tally, uint32_t parent, uint32_t scope)
{
	uint32_t at = tally->node_count;
	uint32_t *histogram;
	struct tally_node *node;

	if (at == NODES_MAX || !array_reserve(&tally->nodes, &tally->node_capacity, (size_t)at + 1,
					      sizeof(*tally->nodes)))
		return parent;
	node = &tally->nodes[parent];
	if (!node->children)
		node->children = calloc(tally->kernel->layout.scope_count, sizeof(uint32_t));
	histogram = calloc(CYCLE_BUCKETS, sizeof(*histogram));
	if (!node->children || !histogram) {
		free(histogram);
		return parent;
	}
	tally->nodes[at] = (struct tally_node){
		.parent = parent,
		.scope = scope,
		.min = UINT64_MAX,
		.histogram = histogram,
	};
	node->children[scope] = at;
	tally->node_count++;
	return at;
}

/* ------------------------------------------------------------------ adding */

static inline void add_to(struct tally_node *node, const struct decode_execution *execution)
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

bool tally_add(struct tally *tally, const struct decoder *decoder)
{
	const struct decode_execution *executions = decoder->executions;
	struct tally_node *nodes = tally->nodes;
	uint32_t *node_of;

	if (!array_reserve(&tally->node_of, &tally->node_of_capacity, decoder->execution_count + 1,
			   sizeof(*tally->node_of)))
		return false;
	node_of = tally->node_of;
	for (size_t i = 0, count = decoder->execution_count; i < count; i++) {
		const struct decode_execution *execution = &executions[i];
		uint32_t parent = execution->parent == DECODE_NONE ? 0 : node_of[execution->parent];
		const uint32_t *children = nodes[parent].children;
		uint32_t node = children ? children[execution->scope] : 0;

		if (!node) {
			node = make_child(tally, parent, execution->scope);
			nodes = tally->nodes;
		}
		node_of[i] = node;
		if (node != parent)
			add_to(&nodes[node], execution);
	}
	return true;
}

void tally_reset(struct tally *tally)
{
	for (uint32_t i = 0; i < tally->node_count; i++) {
		struct tally_node *node = &tally->nodes[i];

		if (node->count)
			memset(node->histogram + cycle_bucket(node->min), 0,
			       (cycle_bucket(node->max) - cycle_bucket(node->min) + 1) *
				       sizeof(*node->histogram));
		node->count = 0;
		node->cycles = 0;
		node->min = UINT64_MAX;
		node->max = 0;
		node->partial = 0;
		node->partial_cycles = 0;
	}
	tally->is_new = true;
}

void tally_fini(struct tally *tally)
{
	free_nodes(tally);
	free(tally->nodes);
	free(tally->node_of);
	*tally = (struct tally){0};
}
