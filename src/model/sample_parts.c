/* Division of samples between kernel nodes, and their metrics. */
#include "model/sample_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/clamped.h"

/* More lines than any program has; further samples are added to their kernels. */
#define LINES_MAX (1u << 22)

uint32_t samples_reason_metric(struct profile *profile, uint32_t reason)
{
	/* Two names of upstream Proton differ from the vendor's. */
	static const struct {
		const char *vendor;
		const char *metric;
	} names[] = {{"no_instructions", "no_instruction"}, {"not_selected", "not_Selected"}};
	const char *text = profile_text(profile, reason);
	const char *at = strstr(text, "_stalled_");
	char name[128];
	size_t length;

	if (at)
		text = at + strlen("_stalled_");
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (strcmp(text, names[i].vendor) == 0)
			text = names[i].metric;
	length = strnlen(text, sizeof(name) - sizeof(SAMPLES_REASON));
	memcpy(name, SAMPLES_REASON, strlen(SAMPLES_REASON));
	memcpy(name + strlen(SAMPLES_REASON), text, length);
	return profile_string(profile, name, strlen(SAMPLES_REASON) + length);
}

void parts_target(struct sample_parts *parts, uint32_t node, uint64_t weight)
{
	if (!array_reserve(&parts->targets, &parts->target_capacity, parts->target_count + 1,
			   sizeof(*parts->targets))) {
		parts->profile->out_of_memory = true;
		return;
	}
	parts->targets[parts->target_count++] =
		(struct part_target){.node = node, .weight = weight};
}

void parts_cell(struct sample_parts *parts, uint32_t node, uint32_t frame, uint32_t reason,
		uint64_t samples)
{
	if (!array_reserve(&parts->cells, &parts->cell_capacity, parts->cell_count + 1,
			   sizeof(*parts->cells))) {
		parts->profile->out_of_memory = true;
		return;
	}
	parts->cells[parts->cell_count++] = (struct part_cell){node, frame, reason, samples};
}

/* ------------------------------------------------------------------ division */

ARRAY_ORDER(compare_targets, struct part_target, ORDER_OF(a->node, b->node))

/* A node has one entry; without any time, all nodes weigh the same. */
static void unite_targets(struct sample_parts *parts)
{
	uint64_t sum = 0;
	size_t count = 0;

	ARRAY_SORT(parts->targets, parts->target_count, compare_targets);
	for (size_t i = 0; i < parts->target_count; i++) {
		struct part_target target = parts->targets[i];

		sum = clamped_u64(sum, target.weight);
		if (count && parts->targets[count - 1].node == target.node)
			parts->targets[count - 1].weight =
				clamped_u64(parts->targets[count - 1].weight, target.weight);
		else
			parts->targets[count++] = target;
	}
	parts->target_count = count;
	for (size_t i = 0; i < count && !sum; i++)
		parts->targets[i].weight = 1;
}

struct share {
	uint32_t target;
	uint64_t part;
	uint64_t remainder;
};

ARRAY_ORDER(compare_shares, struct share,
	    ORDER_OF(b->remainder, a->remainder) ?: ORDER_OF(a->target, b->target))

/*
 * Divides `samples` by the weights (or, if `by_left`, by what each target still has to get), by the
 * method of the largest remainder: the rounded parts add up to `samples`.
 */
static void divide_samples(const struct sample_parts *parts, uint64_t samples, bool by_left,
			   struct share *shares)
{
	__uint128_t sum = 0;
	uint64_t rest = samples;

	for (size_t i = 0; i < parts->target_count; i++)
		sum += by_left ? parts->targets[i].left : parts->targets[i].weight;
	for (size_t i = 0; i < parts->target_count; i++) {
		uint64_t weight = by_left ? parts->targets[i].left : parts->targets[i].weight;
		__uint128_t product = (__uint128_t)samples * weight;

		shares[i] = (struct share){.target = (uint32_t)i,
					   .part = sum ? (uint64_t)(product / sum) : 0,
					   .remainder = sum ? (uint64_t)(product % sum) : 0};
		rest -= shares[i].part;
	}
	if (!rest)
		return;
	ARRAY_SORT(shares, parts->target_count, compare_shares);
	for (size_t i = 0; i < parts->target_count && rest; i++, rest--)
		shares[i].part++;
}

/*
 * Divides each cell without a node. First the sum is divided, then each cell in proportion to what
 * the nodes still have to get: a node's parts add up to its share, a cell's to the cell. Returns
 * the samples that were divided.
 */
static uint64_t divide_cells(struct sample_parts *parts)
{
	struct share *shares = calloc(parts->target_count + 1, sizeof(*shares));
	size_t count = parts->cell_count;
	uint64_t sum = 0;

	if (!shares) {
		parts->profile->out_of_memory = true;
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		if (!parts->cells[i].node)
			sum = clamped_u64(sum, parts->cells[i].samples);
	divide_samples(parts, sum, false, shares);
	for (size_t i = 0; i < parts->target_count; i++) {
		parts->targets[shares[i].target].share = shares[i].part;
		parts->targets[shares[i].target].left = shares[i].part;
	}
	for (size_t i = 0; i < count && !parts->profile->out_of_memory; i++) {
		struct part_cell cell = parts->cells[i];

		if (cell.node)
			continue;
		if (parts->cell_count > LINES_MAX) {
			parts->profile->is_damaged = true;
			break;
		}
		divide_samples(parts, cell.samples, true, shares);
		for (size_t k = 0; k < parts->target_count; k++) {
			struct part_target *target = &parts->targets[shares[k].target];

			target->left -= shares[k].part < target->left ? shares[k].part
								      : target->left;
			if (shares[k].part)
				parts_cell(parts, target->node + 1, cell.frame, cell.reason,
					   shares[k].part);
		}
	}
	free(shares);
	return parts->target_count > 1 ? sum : 0;
}

/* ------------------------------------------------------------------ tree */

ARRAY_ORDER(compare_cells, struct part_cell,
	    ORDER_OF(a->node, b->node) ?: ORDER_OF(a->frame, b->frame)
	    ?: ORDER_OF(a->reason, b->reason))

static void add_value(struct profile *profile, uint32_t node, uint32_t name, uint64_t samples)
{
	uint32_t metric = profile_metric(profile, name, PROTON_METRIC_INT64, 0);
	struct profile_value *value;
	uint32_t at = profile->nodes[node].first_value;

	if (!samples)
		return;
	while (at && profile->values[at].metric != metric)
		at = profile->values[at].next;
	value = at ? &profile->values[at] : profile_value(profile, node, metric);
	clamped_add(&value->as.int64, samples > INT64_MAX ? INT64_MAX : (int64_t)samples);
}

static uint32_t name_of(struct profile *profile, const char *name)
{
	return profile_string(profile, name, strlen(name));
}

/*
 * The child of `node` for a line, made if new. Frames of the table that differ only in the column
 * are one line.
 */
static uint32_t line_child(struct sample_parts *parts, uint32_t node, uint32_t frame)
{
	uint64_t hash = hash_pair(node, frame);
	uint32_t child = hash_table_find(parts->children, hash);

	if (!child) {
		child = profile_node(parts->profile, node, frame);
		if (!hash_table_add(parts->children, hash, child))
			parts->profile->out_of_memory = true;
	}
	return child;
}

/* The node of a line below `kernel`, with its callers; `known` is by frame. */
static uint32_t line_node(struct sample_parts *parts, const struct lines *lines, uint32_t kernel,
			  uint32_t frame, uint32_t *known)
{
	uint32_t path[64];
	size_t depth = 0;
	uint32_t node = kernel;

	/* A deeper chain keeps its innermost frames. */
	for (uint32_t at = frame; at && depth < ARRAY_LENGTH(path); at = lines_caller(lines, at)) {
		if (known[at]) {
			node = known[at] - 1;
			break;
		}
		path[depth++] = at;
	}
	while (depth--) {
		node = line_child(parts, node, lines_profile_frame(lines, path[depth]));
		known[path[depth]] = node + 1;
	}
	return node;
}

/* Adds cells of one node and one line. */
static void add_line(struct sample_parts *parts, uint32_t node, const struct part_cell *cells,
		     size_t count)
{
	struct profile *profile = parts->profile;
	uint32_t selected = name_of(profile, SAMPLES_SELECTED);
	uint32_t unknown = name_of(profile, SAMPLES_UNKNOWN);
	uint64_t stalled = 0;
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t reason = parts->samples->reasons[cells[i].reason];

		all = clamped_u64(all, cells[i].samples);
		if (reason != selected && reason != unknown)
			stalled = clamped_u64(stalled, cells[i].samples);
	}
	add_value(profile, node, name_of(profile, SAMPLES_ALL), all);
	add_value(profile, node, name_of(profile, SAMPLES_STALLED), stalled);
	for (size_t i = 0; i < count; i++)
		if (parts->samples->reasons[cells[i].reason] != unknown)
			add_value(profile, node, parts->samples->reasons[cells[i].reason],
				  cells[i].samples);
}

static void add_cells(struct sample_parts *parts, const struct lines *lines, uint64_t divided)
{
	struct profile *profile = parts->profile;
	uint32_t *known = calloc((size_t)lines_frame_max(lines) + 1, sizeof(*known));
	size_t to;

	if (!known) {
		profile->out_of_memory = true;
		return;
	}
	for (size_t from = 0; from < parts->cell_count && !profile->out_of_memory; from = to) {
		const struct part_cell *first = &parts->cells[from];
		uint32_t node = first->node - 1;

		for (to = from; to < parts->cell_count && parts->cells[to].node == first->node &&
				parts->cells[to].frame == first->frame;)
			to++;
		if (!first->node)
			continue;
		if (from == 0 || first[-1].node != first->node)
			memset(known, 0, (lines_frame_max(lines) + (size_t)1) * sizeof(*known));
		if (first->frame && profile->node_count < LINES_MAX)
			node = line_node(parts, lines, node, first->frame, known);
		add_line(parts, node, first, to - from);
	}
	free(known);
	for (size_t i = 0; i < parts->target_count && divided; i++)
		add_value(profile, parts->targets[i].node, name_of(profile, SAMPLES_APPORTIONED),
			  parts->targets[i].share);
}

uint64_t parts_finish(struct sample_parts *parts, const struct lines *lines)
{
	uint64_t divided = 0;

	unite_targets(parts);
	if (parts->target_count)
		divided = divide_cells(parts);
	ARRAY_SORT(parts->cells, parts->cell_count, compare_cells);
	if (!parts->profile->out_of_memory)
		add_cells(parts, lines, divided);
	free(parts->targets);
	free(parts->cells);
	return divided;
}
