/*
 * Tree traversal in printing order: each node precedes its children; siblings are sorted by the
 * table's sort_column, largest first, and stay in file order if equal or text. A node without a
 * value of an exclusive metric is sorted by its best descendant. Works on trees of any depth.
 */
#pragma once

#include "viewer/query/view.h"

struct walk_step {
	uint32_t node;
	uint32_t level; /* 0: the root */
	bool is_last;   /* last printed child of its parent */
	bool is_more;   /* not a node but the line for `more` frames below `node` that -t omits */
	uint32_t more;  /* frames not printed: here, or (is_more false) beyond the last level */
};

struct walk {
	const struct view *view;
	double *keys;    /* per node; NULL: file order */
	uint32_t *sizes; /* per node: frames in its subtree that are shown or below the threshold */
	struct walk_step *stack;
	size_t stack_count;
	size_t rows; /* in a flat table: the walk leaves out its root, and rows beyond view->rows */
};

void walk_init(struct walk *walk, const struct view *view);
bool walk_next(struct walk *walk, struct walk_step *step_out);
void walk_fini(struct walk *walk);
