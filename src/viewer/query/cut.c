/* Size limit of the tree on a terminal: selects the frames with the largest values. */
#include "viewer/query/cut.h"

#include <math.h>
#include <stdlib.h>

#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"

/* Per node the maximum in its subtree, so the selected nodes form a tree. Text: all equal. */
static double *keys_of(const struct picture *picture)
{
	const struct profile *profile = picture->profile;
	const double *values = picture->columns[picture->sort_column].values;
	double *keys = xcalloc(profile->node_count, sizeof(*keys));

	for (size_t i = 0; values && i < profile->node_count; i++)
		keys[i] = isnan(values[i])        ? -INFINITY
			  : picture->by_magnitude ? fabs(values[i])
						  : values[i];
	for (size_t i = profile->node_count; i-- > 1;) {
		uint32_t parent = profile->nodes[i].parent;

		if (picture->state[i] == NODE_SHOWN && keys[i] > keys[parent])
			keys[parent] = keys[i];
	}
	return keys;
}

static int descending(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return a < b ? 1 : a > b ? -1 : 0;
}

/* Nodes with a larger key are kept, and the first *equals nodes with exactly this key. */
static double least_key(const struct picture *picture, const double *keys, size_t *equals)
{
	size_t nodes = picture->profile->node_count;
	double *sorted = xcalloc(nodes, sizeof(*sorted));
	size_t count = 0;
	double least = -INFINITY;

	*equals = SIZE_MAX;
	for (size_t i = 1; i < nodes; i++)
		if (picture->state[i] == NODE_SHOWN)
			sorted[count++] = keys[i];
	if (count > CUT_FRAMES) {
		qsort(sorted, count, sizeof(*sorted), descending);
		least = sorted[CUT_FRAMES - 1];
		for (*equals = CUT_FRAMES; *equals && sorted[CUT_FRAMES - *equals] > least;)
			--*equals;
	}
	free(sorted);
	return least;
}

/* Adds an omitted frame's value to the omitted part of the first column. */
static void add_missing(struct picture *picture, uint32_t node, bool is_topmost)
{
	const struct metric_column *column = &picture->columns[picture->sort_column];

	picture->cut.frames++;
	if (column->values && !isnan(column->values[node]) && (is_topmost || !column->is_inclusive))
		picture->cut.value += column->values[node];
}

/* 100 %: the value of the root, or the sum of all nodes. */
static double whole_of(const struct picture *picture)
{
	const struct metric_column *column = &picture->columns[picture->sort_column];
	double sum = 0;

	if (!column->values || !column->is_additive)
		return NAN;
	if (column->is_inclusive && !picture->is_flat)
		return column->values[0];
	for (size_t i = picture->is_flat; i < picture->profile->node_count; i++)
		if (picture->state[i] != NODE_GONE && !isnan(column->values[i]))
			sum += column->values[i];
	return sum;
}

void cut_tree(struct picture *picture, uint8_t *state)
{
	const struct profile *profile = picture->profile;
	double *keys = keys_of(picture);
	size_t equals;
	double least = least_key(picture, keys, &equals);
	double whole = whole_of(picture);

	picture->cut.value = 0;
	for (uint32_t i = 1; i < profile->node_count; i++) {
		uint32_t parent = profile->nodes[i].parent;

		if (state[i] != NODE_SHOWN)
			continue;
		if (state[parent] != NODE_BELOW &&
		    (keys[i] > least || (keys[i] == least && equals && equals--)))
			continue;
		state[i] = NODE_BELOW;
		add_missing(picture, i, state[parent] != NODE_BELOW);
	}
	picture->cut.percent =
		whole > 0 && !picture->by_magnitude ? 100 * picture->cut.value / whole : NAN;
	free(keys);
}
