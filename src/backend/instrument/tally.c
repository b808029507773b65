/* Scopes added up. See tally.h. Used by the background thread only. */
#include "backend/instrument/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "record/devices.h"
#include "record/intra.h"

#define NODES_MAX 4096u
#define BUCKETS 1024u

/*
 * Durations in cycles: exact below 32, then 32 buckets per power of two, so that a percentile is
 * off by 3 % at most.
 */
#define SUB_LOG2 5u
#define SUB (1u << SUB_LOG2)
#define HISTOGRAM (SUB * (45u - SUB_LOG2 + 1u)) /* up to 2^45 cycles: hours */

static struct tally *tallies[BUCKETS];

static uint32_t bucket_of(uint64_t cycles)
{
	uint32_t log2;
	uint32_t index;

	if (cycles < SUB)
		return (uint32_t)cycles;
	log2 = 63u - (uint32_t)__builtin_clzll(cycles);
	index = (log2 - SUB_LOG2 + 1) * SUB + (uint32_t)(cycles >> (log2 - SUB_LOG2) & (SUB - 1));
	return index < HISTOGRAM ? index : HISTOGRAM - 1;
}

/* The middle of a bucket. */
static uint64_t bucket_cycles(uint32_t index)
{
	uint32_t log2 = index / SUB + SUB_LOG2 - 1;
	uint64_t width;

	if (index < SUB * 2)
		return index;
	width = 1ull << (log2 - SUB_LOG2);
	return (1ull << log2) + (index % SUB) * width + width / 2;
}

static uint64_t percentile(const struct tally_node *node, double share)
{
	uint64_t wanted = (uint64_t)((double)node->count * share);
	uint64_t seen = 0;

	for (uint32_t i = 0; node->histogram && i < HISTOGRAM; i++) {
		seen += node->histogram[i];
		if (seen > wanted) {
			uint64_t cycles = bucket_cycles(i);

			return cycles < node->min   ? node->min
			       : cycles > node->max ? node->max
						    : cycles;
		}
	}
	return node->max;
}

/* ------------------------------------------------------------------ finding */

static void free_tally(struct tally *tally)
{
	for (uint32_t i = 0; i < tally->node_count; i++)
		free(tally->nodes[i].histogram);
	free(tally->nodes);
	free(tally->frames);
	free(tally->tops);
	free(tally->node_of);
	free(tally);
}

static struct tally *make(const struct kernel *kernel, struct proton_context where)
{
	struct tally *tally = calloc(1, sizeof(*tally));

	if (!tally)
		return NULL;
	tally->kernel = kernel;
	tally->where = where;
	tally->frames = calloc(kernel->layout.scope_count + 1, sizeof(*tally->frames));
	tally->tops = calloc(kernel->layout.scope_count + 1, sizeof(*tally->tops));
	if (!tally->frames || !tally->tops ||
	    !array_reserve(&tally->nodes, &tally->node_capacity, 1, sizeof(*tally->nodes))) {
		free_tally(tally);
		return NULL;
	}
	for (uint32_t i = 0; i < kernel->layout.scope_count; i++)
		tally->frames[i] =
			proton_frame(kernel->layout.scopes[i], strlen(kernel->layout.scopes[i]));
	tally->nodes[0] = (struct tally_node){.where = where};
	tally->node_count = 1;
	return tally;
}

struct tally *tally_of(const struct kernel *kernel, struct proton_context where)
{
	uint64_t hash = hash_u64((uintptr_t)kernel ^ hash_bytes(&where, sizeof(where)));
	struct tally **bucket = &tallies[hash % BUCKETS];
	struct tally *tally;

	for (tally = *bucket; tally; tally = tally->next)
		if (tally->kernel == kernel && memcmp(&tally->where, &where, sizeof(where)) == 0)
			return tally;
	tally = make(kernel, where);
	if (tally) {
		tally->next = *bucket;
		*bucket = tally;
	}
	return tally;
}

void tally_clear(void)
{
	for (uint32_t i = 0; i < BUCKETS; i++) {
		while (tallies[i]) {
			struct tally *next = tallies[i]->next;

			free_tally(tallies[i]);
			tallies[i] = next;
		}
	}
}

/* ------------------------------------------------------------------ adding */

/* The child of `parent` for `scope`; the parent itself when there is no room for more. */
static uint32_t child_of(struct tally *tally, uint32_t parent, uint32_t scope)
{
	uint32_t at;

	if (!parent && tally->tops[scope])
		return tally->tops[scope];
	for (at = tally->nodes[parent].first_child; at; at = tally->nodes[at].next_sibling)
		if (tally->nodes[at].scope == scope)
			return at;
	at = tally->node_count;
	if (at == NODES_MAX || !array_reserve(&tally->nodes, &tally->node_capacity, (size_t)at + 1,
					      sizeof(*tally->nodes)))
		return parent;
	tally->nodes[at] = (struct tally_node){
		.where = proton_context_enter(tally->nodes[parent].where, tally->frames[scope]),
		.parent = parent,
		.scope = scope,
		.min = UINT64_MAX,
		.next_sibling = tally->nodes[parent].first_child,
		.histogram = calloc(HISTOGRAM, sizeof(uint32_t)),
	};
	tally->nodes[parent].first_child = at;
	tally->node_count++;
	if (!parent)
		tally->tops[scope] = at;
	return at;
}

static void add_to(struct tally_node *node, uint64_t cycles)
{
	node->new_count++;
	node->new_cycles += cycles;
	if (cycles < node->min)
		node->min = cycles;
	if (cycles > node->max)
		node->max = cycles;
	if (node->histogram)
		node->histogram[bucket_of(cycles)]++;
}

bool tally_add(struct tally *tally, const struct decoder *decoder)
{
	if (!array_reserve(&tally->node_of, &tally->node_of_capacity, decoder->execution_count + 1,
			   sizeof(*tally->node_of)))
		return false;
	for (size_t i = 0; i < decoder->execution_count; i++) {
		const struct decode_execution *execution = &decoder->executions[i];
		uint32_t parent =
			execution->parent == DECODE_NONE ? 0 : tally->node_of[execution->parent];
		uint32_t node = child_of(tally, parent, execution->scope);

		tally->node_of[i] = node;
		if (node && node != parent)
			add_to(&tally->nodes[node], execution->duration);
	}
	return true;
}

/* ------------------------------------------------------------------ telling */

enum {
	CYCLES,
	NORMALIZED,
	EXECUTIONS,
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
 * All exclusive or properties: the cycles of a scope hold those of the scopes inside already, so
 * that nothing may add up towards the root.
 */
static const struct proton_metric metrics[METRICS] = {
	[CYCLES] = {.name = "cycles (exc)", .type = PROTON_METRIC_INT64},
	[NORMALIZED] = {.name = "normalized_cycles (exc)", .type = PROTON_METRIC_DOUBLE},
	[EXECUTIONS] = {.name = "executions (exc)", .type = PROTON_METRIC_INT64},
	[PER_WARP] = {.name = "executions_per_warp (pty)", .type = PROTON_METRIC_DOUBLE},
	[MIN] = {.name = "min_cycles (pty)", .type = PROTON_METRIC_INT64},
	[MEAN] = {.name = "mean_cycles (pty)", .type = PROTON_METRIC_DOUBLE},
	[P99] = {.name = "p99_cycles (pty)", .type = PROTON_METRIC_INT64},
	[MAX] = {.name = "max_cycles (pty)", .type = PROTON_METRIC_INT64},
	[DEVICE_ID] = {.name = "device_id (pty)", .type = PROTON_METRIC_STRING},
	[DEVICE_TYPE] = {.name = "device_type (pty)", .type = PROTON_METRIC_STRING},
};

static void tell(const struct tally *tally, struct tally_node *node, uint64_t units,
		 const struct device *device)
{
	static uint32_t ids[METRICS];
	struct proton_metric values[METRICS];
	char device_id[12];

	node->count += node->new_count;
	node->cycles += node->new_cycles;
	for (int i = 0; i < METRICS; i++) {
		if (!ids[i])
			ids[i] = proton_metric_name(metrics[i].name);
		values[i] = metrics[i];
		values[i].name_id = ids[i];
	}
	values[CYCLES].value.int64 = (int64_t)node->new_cycles;
	values[NORMALIZED].value.float64 = (double)node->new_cycles / (double)units;
	values[EXECUTIONS].value.int64 = (int64_t)node->new_count;
	values[PER_WARP].value.float64 = (double)node->count / (double)tally->units;
	values[MIN].value.int64 = (int64_t)node->min;
	values[MEAN].value.float64 = (double)node->cycles / (double)node->count;
	values[P99].value.int64 = (int64_t)percentile(node, 0.99);
	values[MAX].value.int64 = (int64_t)node->max;
	if (device) {
		snprintf(device_id, sizeof(device_id), "%u", device->id);
		values[DEVICE_ID].value.string = device_id;
		values[DEVICE_TYPE].value.string = device->type;
	}
	proton_metrics_add(node->where, values, device ? METRICS : DEVICE_ID, NULL);
	node->new_count = 0;
	node->new_cycles = 0;
}

void tally_commit(struct tally *tally, uint64_t units, uint32_t device)
{
	const struct device *described = devices_get(device);

	if (!units)
		return;
	tally->units += units;
	if (described)
		record_intra_device(tally->where, device);
	for (uint32_t i = 1; i < tally->node_count; i++)
		if (tally->nodes[i].new_count)
			tell(tally, &tally->nodes[i], units, described);
}
