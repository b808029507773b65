/* Size limit of the tree on a terminal: selects the frames with the largest values. */
#include "viewer/query/cut.h"

#include <math.h>
#include <stdlib.h>

#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"

/* Per node the maximum in its subtree, so the selected nodes form a tree. Text: all equal. */
static double *keys_of(const struct table_model *table)
{
	const struct profile *profile = table->profile;
	const double *values = table->columns[table->sort_column].values;
	double *keys = xcalloc(profile->node_count, sizeof(*keys));

	for (size_t i = 0; values && i < profile->node_count; i++)
		keys[i] = isnan(values[i])      ? -INFINITY
			  : table->by_magnitude ? fabs(values[i])
						: values[i];
	for (size_t i = profile->node_count; i-- > 1;) {
		uint32_t parent = profile->nodes[i].parent;

		if (table->state[i] == NODE_SHOWN && keys[i] > keys[parent])
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
static double min_key(const struct table_model *table, const double *keys, size_t *equals)
{
	size_t nodes = table->profile->node_count;
	double *sorted = xcalloc(nodes, sizeof(*sorted));
	size_t count = 0;
	double min = -INFINITY;

	*equals = SIZE_MAX;
	for (size_t i = 1; i < nodes; i++)
		if (table->state[i] == NODE_SHOWN)
			sorted[count++] = keys[i];
	if (count > CUT_FRAMES) {
		qsort(sorted, count, sizeof(*sorted), descending);
		min = sorted[CUT_FRAMES - 1];
		for (*equals = CUT_FRAMES; *equals && sorted[CUT_FRAMES - *equals] > min;)
			--*equals;
	}
	free(sorted);
	return min;
}

/* Adds an omitted frame's value to the omitted part of the first column. */
static void add_missing(struct table_model *table, uint32_t node, bool is_topmost)
{
	const struct metric_column *column = &table->columns[table->sort_column];

	table->cut.frames++;
	if (column->values && !isnan(column->values[node]) && (is_topmost || !column->is_inclusive))
		table->cut.value += column->values[node];
}

/* 100 %: the value of the root, or the sum of all nodes. */
static double whole_of(const struct table_model *table)
{
	const struct metric_column *column = &table->columns[table->sort_column];
	double sum = 0;

	if (!column->values || !column->is_additive)
		return NAN;
	if (column->is_inclusive && !table->is_flat)
		return column->values[0];
	for (size_t i = table->is_flat; i < table->profile->node_count; i++)
		if (table->state[i] != NODE_GONE && !isnan(column->values[i]))
			sum += column->values[i];
	return sum;
}

void cut_tree(struct table_model *table, uint8_t *state)
{
	const struct profile *profile = table->profile;
	double *keys = keys_of(table);
	size_t equals;
	double min = min_key(table, keys, &equals);
	double whole = whole_of(table);

	table->cut.value = 0;
	for (uint32_t i = 1; i < profile->node_count; i++) {
		uint32_t parent = profile->nodes[i].parent;

		if (state[i] != NODE_SHOWN)
			continue;
		if (state[parent] != NODE_BELOW &&
		    (keys[i] > min || (keys[i] == min && equals && equals--)))
			continue;
		state[i] = NODE_BELOW;
		add_missing(table, i, state[parent] != NODE_BELOW);
	}
	table->cut.percent = whole > 0 && !table->by_magnitude ? 100 * table->cut.value / whole
							       : NAN;
	free(keys);
}
