/*
 * The order in which nodes are printed: each before its children, siblings by the picture's
 * sort_column, largest first, equals and text in the order of the file. A node that has no value of
 * an exclusive metric itself stands where its best descendant would. Works on trees of any depth.
 */
#ifndef VIEWER_QUERY_WALK_H
#define VIEWER_QUERY_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/print/table_model.h"

struct walk_step {
	uint32_t node;
	uint32_t level; /* 0: the root */
	bool is_last;   /* among what is printed below its parent */
	bool is_more;   /* no node, but the mention of `more` frames below `node` left out by -t */
	uint32_t more;  /* frames not printed: here, or (is_more false) below the last level */
};

struct walk {
	const struct picture *picture;
	double *keys;    /* per node; NULL: order of the file */
	uint32_t *sizes; /* per node: frames in its subtree that are shown or below the threshold */
	struct walk_step *stack;
	size_t stack_count;
	size_t stack_capacity;
};

void walk_init(struct walk *walk, const struct picture *picture);
bool walk_next(struct walk *walk, struct walk_step *step_out);
void walk_fini(struct walk *walk);

#endif
