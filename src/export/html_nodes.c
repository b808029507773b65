/* Selection of the frames that the HTML report draws, by their largest share of any metric. */
#include "export/html_nodes.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "base/strings.h"

#define NAMES_RESERVE_BYTES (1ull << 36)

/* ------------------------------------------------------------------ shares */

/*
 * A node's largest share of the root's value, or of the maximum for metrics that are not additive.
 */
static void add_shares(struct html_nodes *nodes)
{
	const struct export_view *view = nodes->view;
	double *shares = nodes->shares;
	size_t count = view->profile->node_count;

	for (size_t m = 0; m < view->metric_count; m++) {
		const struct export_metric *metric = &view->metrics[m];
		double whole = metric->is_inclusive ? export_value(&metric->total, 0) : 0;

		if (!metric->own.values)
			continue;
		for (uint32_t i = 0; !metric->is_inclusive && i < count; i++)
			if (view->shown[i] && fabs(export_value(&metric->total, i)) > whole)
				whole = fabs(export_value(&metric->total, i));
		for (uint32_t i = 0; i < count && whole > 0; i++) {
			double share = fabs(export_value(&metric->total, i)) / whole;

			if (share > shares[i])
				shares[i] = share;
		}
	}
	/* A node with a large exclusive value keeps its ancestors. */
	for (size_t i = count; i-- > 1;) {
		uint32_t parent = view->profile->nodes[i].parent;

		if (view->shown[i] && shares[i] > shares[parent])
			shares[parent] = shares[i];
	}
}

void html_weights(const struct export_view *view, const struct export_metric *metric,
		  double *weights)
{
	const struct export_numbers *numbers = metric->is_inclusive ? &metric->total : &metric->own;
	size_t count = view->profile->node_count;

	for (uint32_t i = 0; i < count; i++) {
		double value = export_value(numbers, i);

		weights[i] = view->shown[i] && value > 0 ? value : 0;
	}
	for (size_t i = count; !metric->is_inclusive && i-- > 1;)
		weights[view->profile->nodes[i].parent] += weights[i];
}

/* ------------------------------------------------------------------ two profiles */

#define NO_PARTNER UINT32_MAX

/* Nodes of the first profile by parent and name. */
struct pairs {
	struct strings names;
	struct out name;
	struct hash_table nodes; /* (parent, name) -> node */
	uint32_t *name_of_frame[2];
	uint32_t *partner; /* per node of the second: the same of the first, or NO_PARTNER */
};

static bool name_frames(struct pairs *pairs, const struct export_view *view, uint32_t **ids_out)
{
	size_t count = view->profile->frame_count;
	uint32_t *ids = calloc(count + 1, sizeof(*ids));

	*ids_out = ids;
	for (uint32_t i = 0; ids && i < count; i++) {
		pairs->name.length = 0;
		view->write_name(&pairs->name, view, i);
		ids[i] = pairs->name.length
				 ? strings_add(&pairs->names, pairs->name.bytes, pairs->name.length)
				 : 0;
		if (pairs->name.errnum || ids[i] == STRING_NONE)
			return false;
	}
	return ids != NULL;
}

static bool pairs_init(struct pairs *pairs, const struct html_nodes *nodes)
{
	const struct profile *first = nodes[0].view->profile;
	struct proton_error err;

	out_init(&pairs->name, -1);
	if (strings_init(&pairs->names, NAMES_RESERVE_BYTES, &err))
		return false;
	pairs->partner = malloc(nodes[1].view->profile->node_count * sizeof(*pairs->partner));
	return hash_table_reserve(&pairs->nodes, first->node_count) && pairs->partner &&
	       name_frames(pairs, nodes[0].view, &pairs->name_of_frame[0]) &&
	       name_frames(pairs, nodes[1].view, &pairs->name_of_frame[1]);
}

static void pairs_fini(struct pairs *pairs)
{
	strings_fini(&pairs->names);
	out_fini(&pairs->name);
	hash_table_fini(&pairs->nodes);
	free(pairs->partner);
	free(pairs->name_of_frame[0]);
	free(pairs->name_of_frame[1]);
}

/* Frames with the same path get the larger of their shares, in both profiles. */
static bool share_shares(struct html_nodes *nodes)
{
	const struct profile *first = nodes[0].view->profile;
	const struct profile *second = nodes[1].view->profile;
	struct pairs pairs = {0};
	bool has_memory = pairs_init(&pairs, nodes);

	for (uint32_t i = 1; has_memory && i < first->node_count; i++) {
		uint32_t name = pairs.name_of_frame[0][first->nodes[i].frame];
		uint64_t key = hash_pair(first->nodes[i].parent, name);

		if (nodes[0].view->shown[i] && !hash_table_find(&pairs.nodes, key))
			hash_table_add(&pairs.nodes, key, i);
	}
	for (uint32_t i = 0; has_memory && i < second->node_count; i++) {
		uint32_t name = pairs.name_of_frame[1][second->nodes[i].frame];
		uint32_t parent = pairs.partner[second->nodes[i].parent];
		double *mine = &nodes[1].shares[i];
		double *other;

		pairs.partner[i] = 0;
		if (i && parent != NO_PARTNER && nodes[1].view->shown[i])
			pairs.partner[i] = hash_table_find(&pairs.nodes, hash_pair(parent, name));
		if (i && !pairs.partner[i]) {
			pairs.partner[i] = NO_PARTNER;
			continue;
		}
		other = &nodes[0].shares[pairs.partner[i]];
		*mine = *other = *mine > *other ? *mine : *other;
	}
	pairs_fini(&pairs);
	return has_memory;
}

/* ------------------------------------------------------------------ places */

static int descending(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* The share that at most `space` nodes exceed; below 0: all fit. NAN if memory ran out. */
static double share_for(const struct html_nodes *nodes, size_t space)
{
	size_t count = nodes->view->profile->node_count;
	size_t shown = 0;
	double share = -1;
	double *sorted;

	if (count <= space)
		return share;
	sorted = malloc(count * sizeof(*sorted));
	if (!sorted)
		return NAN;
	for (size_t i = 0; i < count; i++)
		if (nodes->view->shown[i])
			sorted[shown++] = nodes->shares[i];
	if (shown > space) {
		qsort(sorted, shown, sizeof(*sorted), descending);
		share = sorted[space];
	}
	free(sorted);
	return share;
}

/* A pruned node takes about three characters per number on the page. */
static size_t listed_max(const struct export_view *view)
{
	size_t chars = 4;

	for (size_t m = 0; m < view->metric_count; m++)
		chars += view->metrics[m].own.values ? 3 : 0;
	return HTML_LISTED_CHARS / chars;
}

/* Marks the summed nodes below another one of the same frame. */
static bool find_insides(struct html_nodes *nodes)
{
	const struct profile *profile = nodes->view->profile;
	uint32_t *open = calloc(profile->frame_count + 1, sizeof(*open)); /* per frame */
	uint32_t *path = malloc(profile->node_count * sizeof(*path));     /* nodes by level */
	uint32_t depth = 0;
	uint32_t level = 0;
	uint32_t node = 0;
	bool has_memory = open && path;

	while (has_memory) {
		uint32_t frame = profile->nodes[node].frame;

		while (depth > level)
			if (nodes->place[path[--depth]] >= HTML_SUMMED)
				open[profile->nodes[path[depth]].frame]--;
		path[depth++] = node;
		if (nodes->place[node] == HTML_SUMMED && open[frame]++)
			nodes->place[node] = HTML_SUMMED_INSIDE;
		node = export_view_next(nodes->view, node, &level);
		if (!node)
			break;
	}
	free(open);
	free(path);
	return has_memory;
}

static bool place_nodes(struct html_nodes *nodes, double listed_share)
{
	const struct export_view *view = nodes->view;

	for (size_t i = 0; i < view->profile->node_count; i++) {
		double share = nodes->shares[i];

		nodes->place[i] = !view->shown[i]                        ? HTML_HIDDEN
				  : i == 0 || share > nodes->drawn_share ? HTML_DRAWN
				  : share > listed_share                 ? HTML_LISTED
									 : HTML_SUMMED;
	}
	if (listed_share >= 0 && !find_insides(nodes))
		return false;
	for (size_t i = 0; i < view->profile->node_count; i++)
		nodes->count[nodes->place[i]]++;
	return true;
}

bool html_nodes_init(struct html_nodes *nodes, size_t count, const struct export_view *view)
{
	double drawn_share = -1;
	double listed_share = -1;

	for (size_t i = 0; i < count; i++, view = view->other) {
		size_t node_count = view->profile->node_count;

		nodes[i].view = view;
		nodes[i].shares = calloc(node_count, sizeof(*nodes[i].shares));
		nodes[i].place = calloc(node_count, 1);
		if (!nodes[i].shares || !nodes[i].place)
			return false;
		add_shares(&nodes[i]);
	}
	if (count == 2 && !share_shares(nodes))
		return false;
	for (size_t i = 0; i < count; i++) {
		double drawn = share_for(&nodes[i], HTML_DRAWN_MAX);
		double listed = share_for(&nodes[i], HTML_DRAWN_MAX + listed_max(nodes[i].view));

		if (isnan(drawn) || isnan(listed))
			return false;
		drawn_share = drawn > drawn_share ? drawn : drawn_share;
		listed_share = listed > listed_share ? listed : listed_share;
	}
	for (size_t i = 0; i < count; i++) {
		nodes[i].drawn_share = drawn_share;
		if (!place_nodes(&nodes[i], listed_share))
			return false;
	}
	return true;
}

void html_nodes_fini(struct html_nodes *nodes)
{
	free(nodes->shares);
	free(nodes->place);
}
