/*
 * Filters: which nodes are shown. They change no values, with one exception: launch metadata
 * (kernels that only compute flops and bytes) is removed before any sums are made.
 */
#pragma once

#include "base/err.h"
#include "model/profile.h"

enum node_state {
	NODE_SHOWN = 0,
	NODE_HIDDEN = 1, /* -i, -e: not printed */
	NODE_BELOW = 2,  /* -t: not printed, but counted in a line */
	NODE_GONE = 3,   /* launch metadata, or a context without measurements */
};

/*
 * The state of each node, malloc'd: NODE_SHOWN or NODE_GONE. The root is always shown. The values
 * of gone nodes are removed from the profile and thus from all sums.
 */
uint8_t *filter_prune(struct profile *profile);

/*
 * Hides all nodes except paths through a frame that matches `pattern`, from the root to the leaves.
 * E_INVALID: not a regular expression. *matches_out: number of matching nodes.
 */
int filter_include(const struct profile *profile, uint8_t *state, const char *pattern,
		   size_t *matches_out, struct proton_error *err);
/* Hides frames that match `pattern`, with their subtrees. */
int filter_exclude(const struct profile *profile, uint8_t *state, const char *pattern,
		   size_t *matches_out, struct proton_error *err);
/*
 * Which nodes are shown and match, malloc'd; `state` NULL: all are shown. E_INVALID: not a regular
 * expression.
 */
int filter_matches(const struct profile *profile, const uint8_t *state, const char *pattern,
		   bool **matches_out, struct proton_error *err);
/*
 * Nodes that -i and -e select when a table is built from a tree: the subtrees of nodes that match
 * `include`, without the subtrees of nodes that match `exclude`. Either may be NULL; *none_out is
 * the first that matches nothing, or NULL.
 */
int filter_select(const struct profile *profile, const char *include, const char *exclude,
		  bool **keeps_out, const char **none_out, struct proton_error *err);
/* Marks a node as below the threshold if `is_enough` is false for it and all its descendants. */
void filter_require(const struct profile *profile, uint8_t *state, const bool *is_enough);
