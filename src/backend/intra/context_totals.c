/* Totals per kernel and context: adds launches and reports them to the profile. */
#include "backend/intra/context_totals.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/intra/cycle_histogram.h"
#include "base/array.h"
#include "model/scope_metrics.h"
#include "record/store/devices.h"

#define NODES_MAX 4096u

/* A scope at its position below the kernel. */
struct scope_total {
	struct proton_context where;
	uint32_t scope;
	uint32_t first_child; /* 0: none */
	uint32_t next_sibling;
	uint64_t count; /* whole executions; the next six are about them only */
	uint64_t cycles;
	uint64_t min;
	uint64_t max;
	uint32_t *histogram;
	uint64_t unbounded; /* executions that are missing in `min` and `max` */
	uint64_t unsorted;  /* and in `histogram` */
	uint64_t partial;   /* partial executions */
};

/* ------------------------------------------------------------------ nodes */

/* Reports the compiler's warning about a kernel at its node. */
static void add_warning(struct proton_context where, const char *text)
{
	struct proton_metric metric = {
		.name = SCOPE_WARNING " (pty)",
		.type = PROTON_METRIC_STRING,
		.value.string = text,
	};

	proton_metrics_add(where, &metric, 1, NULL);
}

/* At the first launch: creates the kernel's node, and a frame for each scope. */
static bool begin_context(struct context_totals *totals, const struct launch_totals *launch)
{
	const struct instrument_layout *layout = &launch->kernel->layout;

	if (!array_reserve(&totals->nodes, &totals->node_capacity, 1, sizeof(*totals->nodes)))
		return false;
	totals->frames = calloc(layout->scope_count + 1, sizeof(*totals->frames));
	if (!totals->frames)
		return false;
	for (uint32_t i = 0; i < layout->scope_count; i++)
		totals->frames[i] = proton_frame(layout->scopes[i], strlen(layout->scopes[i]));
	totals->nodes[0] = (struct scope_total){.where = launch->where};
	totals->node_count = 1;
	if (layout->warning)
		add_warning(launch->where, layout->warning);
	return true;
}

void context_totals_fini(struct context_totals *totals)
{
	for (uint32_t i = 0; i < totals->node_count; i++)
		free(totals->nodes[i].histogram);
	free(totals->nodes);
	free(totals->frames);
	*totals = (struct context_totals){0};
}

/* The child of `parent` for `scope`; `parent` itself if there is no space for more. */
static uint32_t child_of(struct context_totals *totals, uint32_t parent, uint32_t scope)
{
	uint32_t at;
	uint32_t *histogram;

	for (at = totals->nodes[parent].first_child; at; at = totals->nodes[at].next_sibling)
		if (totals->nodes[at].scope == scope)
			return at;
	at = totals->node_count;
	if (at == NODES_MAX || !array_reserve(&totals->nodes, &totals->node_capacity,
					      (size_t)at + 1, sizeof(*totals->nodes)))
		return parent;
	histogram = calloc(CYCLE_BUCKETS, sizeof(*histogram));
	if (!histogram)
		return parent;
	totals->nodes[at] = (struct scope_total){
		.where = proton_context_enter(totals->nodes[parent].where, totals->frames[scope]),
		.scope = scope,
		.min = UINT64_MAX,
		.next_sibling = totals->nodes[parent].first_child,
		.histogram = histogram,
	};
	totals->nodes[parent].first_child = at;
	totals->node_count++;
	return at;
}

/* ------------------------------------------------------------------ reporting */

static uint64_t percentile(const struct scope_total *node, double share)
{
	uint64_t wanted = (uint64_t)((double)node->count * share);
	uint64_t seen = 0;

	for (uint32_t i = 0; node->histogram && i < CYCLE_BUCKETS; i++) {
		seen += node->histogram[i];
		if (seen > wanted) {
			uint64_t cycles = cycle_bucket_middle(i);

			return cycles < node->min   ? node->min
			       : cycles > node->max ? node->max
						    : cycles;
		}
	}
	return node->max;
}

enum {
	CYCLES,
	NORMALIZED,
	EXECUTIONS,
	PARTIAL,
	PER_WARP,
	MIN,
	MEAN,
	P99,
	MAX,
	DEVICE_ID,
	DEVICE_TYPE,
	METRICS,
};

/*
 * All exclusive or properties: the cycles of a scope include those of inner scopes, so nothing may
 * be summed towards the root.
 */
static const struct proton_metric metrics[METRICS] = {
	[CYCLES] = {.name = "cycles (exc)", .type = PROTON_METRIC_INT64},
	[NORMALIZED] = {.name = "normalized_cycles (exc)", .type = PROTON_METRIC_DOUBLE},
	[EXECUTIONS] = {.name = "executions (exc)", .type = PROTON_METRIC_INT64},
	[PARTIAL] = {.name = SCOPE_PARTIAL_EXECUTIONS " (exc)", .type = PROTON_METRIC_INT64},
	[PER_WARP] = {.name = "executions_per_warp (pty)", .type = PROTON_METRIC_DOUBLE},
	[MIN] = {.name = "min_cycles (pty)", .type = PROTON_METRIC_INT64},
	[MEAN] = {.name = "mean_cycles (pty)", .type = PROTON_METRIC_DOUBLE},
	[P99] = {.name = "p99_cycles (pty)", .type = PROTON_METRIC_INT64},
	[MAX] = {.name = "max_cycles (pty)", .type = PROTON_METRIC_INT64},
	[DEVICE_ID] = {.name = "device_id (pty)", .type = PROTON_METRIC_STRING},
	[DEVICE_TYPE] = {.name = "device_type (pty)", .type = PROTON_METRIC_STRING},
};

static uint32_t id_of(int metric)
{
	static _Atomic uint32_t ids[METRICS];
	/* relaxed, like the store below: every thread computes the same number */
	uint32_t id = atomic_load_explicit(&ids[metric], memory_order_relaxed);

	if (!id) {
		id = proton_metric_name(metrics[metric].name);
		atomic_store_explicit(&ids[metric], id, memory_order_relaxed);
	}
	return id;
}

/* Metrics of one scope. */
struct node_metrics {
	struct proton_metric values[METRICS];
	size_t count;
};

static struct proton_metric *next_metric(struct node_metrics *list, int metric)
{
	struct proton_metric *value = &list->values[list->count++];

	*value = metrics[metric];
	value->name_id = id_of(metric);
	return value;
}

static void put_int64(struct node_metrics *list, int metric, uint64_t value)
{
	next_metric(list, metric)->value.int64 = (int64_t)value;
}

static void put_double(struct node_metrics *list, int metric, double value)
{
	next_metric(list, metric)->value.float64 = value;
}

/* Reports `new`, which `sum` already includes. */
static void report_scope(const struct context_totals *totals, const struct scope_total *sum,
			 const struct launch_node *new, uint64_t units, const struct device *device)
{
	uint64_t cycles = new->cycles + new->partial_cycles;
	struct node_metrics list = {.count = 0};
	char device_id[12];

	put_int64(&list, CYCLES, cycles);
	put_double(&list, NORMALIZED, (double)cycles / (double)units);
	put_int64(&list, EXECUTIONS, new->count + new->partial);
	if (new->partial)
		put_int64(&list, PARTIAL, new->partial);
	put_double(&list, PER_WARP, (double)(sum->count + sum->partial) / (double)totals->units);
	/* The duration of a partial execution is unknown. */
	if (sum->count)
		put_double(&list, MEAN, (double)sum->cycles / (double)sum->count);
	if (sum->count && !sum->unbounded) {
		put_int64(&list, MIN, sum->min);
		if (!sum->unsorted)
			put_int64(&list, P99, percentile(sum, 0.99));
		put_int64(&list, MAX, sum->max);
	}
	if (device) {
		snprintf(device_id, sizeof(device_id), "%u", device->id);
		next_metric(&list, DEVICE_ID)->value.string = device_id;
		next_metric(&list, DEVICE_TYPE)->value.string = device->type;
	}
	proton_metrics_add(sum->where, list.values, list.count, NULL);
}

/* ------------------------------------------------------------------ adding a launch */

static void add_total(struct scope_total *sum, const struct launch_node *node)
{
	uint32_t last = cycle_bucket(node->max);

	sum->partial += node->partial;
	if (!node->count)
		return;
	sum->count += node->count;
	sum->cycles += node->cycles;
	sum->unbounded += node->unbounded;
	sum->unsorted += node->unsorted;
	if (node->min == UINT64_MAX)
		return;
	if (node->min < sum->min)
		sum->min = node->min;
	if (node->max > sum->max)
		sum->max = node->max;
	for (uint32_t i = cycle_bucket(node->min); i <= last; i++)
		sum->histogram[i] += node->histogram[i];
}

bool context_totals_add(struct context_totals *totals, struct launch_totals *launch, uint64_t units,
			const struct device *device)
{
	uint32_t *index_of; /* of each node: its index in `totals` */

	if (!totals->node_count && !begin_context(totals, launch))
		return false;
	index_of = calloc(launch->node_count, sizeof(*index_of));
	if (!index_of)
		return false;
	totals->units += units;
	for (uint32_t i = 1; i < launch->node_count; i++) {
		struct launch_node *node = &launch->nodes[i];
		uint32_t parent = index_of[node->parent];
		uint32_t at = child_of(totals, parent, node->scope);

		index_of[i] = at;
		node->where = totals->nodes[at].where;
		if (!(node->count + node->partial) || at == parent)
			continue;
		add_total(&totals->nodes[at], node);
		report_scope(totals, &totals->nodes[at], node, units, device);
	}
	free(index_of);
	return true;
}
