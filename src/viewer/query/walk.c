/* Tree traversal in printing order, with an explicit stack. */
#include "viewer/query/walk.h"

#include <math.h>

#include "base/array.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"

/* Sort keys of an exclusive column: a node's own value, else the maximum of its descendants. */
static double *keys_of(const struct view *view)
{
	const struct profile *profile = view->profile;
	const struct metric_column *column = &view->columns[view->sort_column];

	if (!column->values)
		return NULL;
	double *keys = xcalloc(profile->node_count, sizeof(*keys));
	memcpy(keys, column->values, profile->node_count * sizeof(*keys));
	if (view->by_magnitude) {
		/* Values that cancel out in a parent do not hide its descendants. */
		for (size_t i = profile->node_count; i-- > 0;) {
			uint32_t parent = profile->nodes[i].parent;

			keys[i] = fabs(keys[i]);
			if (i && !(fabs(keys[parent]) >= keys[i]))
				keys[parent] = keys[i];
		}
		return keys;
	}
	if (column->is_inclusive)
		return keys;
	for (size_t i = profile->node_count; i-- > 1;) {
		uint32_t parent = profile->nodes[i].parent;

		if (isnan(column->values[parent]) && !(keys[parent] >= keys[i]))
			keys[parent] = keys[i];
	}
	return keys;
}

static uint32_t *sizes_of(const struct view *view)
{
	const struct profile *profile = view->profile;
	uint32_t *sizes = xcalloc(profile->node_count, sizeof(*sizes));

	for (size_t i = profile->node_count; i-- > 0;) {
		if (view->state[i] != NODE_SHOWN && view->state[i] != NODE_BELOW)
			continue;
		sizes[i]++;
		if (i > 0)
			sizes[profile->nodes[i].parent] += sizes[i];
	}
	return sizes;
}

void walk_init(struct walk *walk, const struct view *view)
{
	*walk = (struct walk){.view = view};
	walk->keys = keys_of(view);
	walk->sizes = sizes_of(view);
	XADD(walk->stack, walk->stack_count, (struct walk_step){.is_last = true});
}

void walk_fini(struct walk *walk)
{
	FREE_ALL(walk->keys, walk->sizes, walk->stack);
}

/* The node that is printed first is pushed last. */
static int compare_steps(const void *left, const void *right, void *keys_pointer)
{
	const struct walk_step *a = left;
	const struct walk_step *b = right;
	const double *keys = keys_pointer;
	double key_a = keys ? keys[a->node] : 0;
	double key_b = keys ? keys[b->node] : 0;

	if (isnan(key_a) != isnan(key_b))
		return isnan(key_a) ? -1 : 1;
	if (key_a < key_b || key_a > key_b)
		return key_a < key_b ? -1 : 1;
	return a->node < b->node ? 1 : -1;
}

static void push_children(struct walk *walk, const struct walk_step *parent)
{
	const struct profile *profile = walk->view->profile;
	const uint8_t *state = walk->view->state;
	uint32_t below = 0;
	size_t start = walk->stack_count;

	for (uint32_t i = profile->nodes[parent->node].first_child; i;
	     i = profile->nodes[i].next_sibling) {
		if (state[i] == NODE_BELOW)
			below += walk->sizes[i];
	}
	if (below) {
		XADD(walk->stack, walk->stack_count,
		     (struct walk_step){
			     .node = parent->node,
			     .level = parent->level + 1,
			     .is_last = true,
			     .is_more = true,
			     .more = below,
		     });
		start++;
	}
	for (uint32_t i = profile->nodes[parent->node].first_child; i;
	     i = profile->nodes[i].next_sibling) {
		if (state[i] != NODE_SHOWN)
			continue;
		XADD(walk->stack, walk->stack_count,
		     (struct walk_step){.node = i, .level = parent->level + 1});
	}
	if (walk->stack_count == start)
		return;
	struct walk_step *first = &walk->stack[start];
	qsort_r(first, walk->stack_count - start, sizeof(*first), compare_steps, walk->keys);
	first->is_last = !below;
}

bool walk_next(struct walk *walk, struct walk_step *step_out)
{
	if (walk->stack_count == 0)
		return false;
	*step_out = walk->stack[--walk->stack_count];
	struct walk_step *step = step_out;
	if (step->is_more)
		return true;
	if (walk->view->is_flat && step->level && walk->view->rows &&
	    walk->rows++ == walk->view->rows) {
		step->is_more = true;
		step->more = (uint32_t)walk->stack_count + 1;
		walk->stack_count = 0;
		return true;
	}
	if (step->level + 1 < walk->view->depth)
		push_children(walk, step);
	else
		step->more = walk->sizes[step->node] - 1;
	return step->level || !walk->view->is_flat || walk_next(walk, step_out);
}
