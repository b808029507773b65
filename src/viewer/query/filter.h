/*
 * Which nodes are part of the picture. Numbers are never changed by it, with one exception: what
 * belongs to launch metadata (kernels that only compute flops and bytes) is taken out before
 * anything is added up.
 */
#ifndef VIEWER_QUERY_FILTER_H
#define VIEWER_QUERY_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/profile.h"

enum node_state {
	NODE_SHOWN = 0,
	NODE_HIDDEN = 1, /* -i, -e: not printed */
	NODE_BELOW = 2,  /* -t: not printed, but mentioned */
	NODE_GONE = 3,   /* launch metadata, or a context in which nothing was measured */
};

/*
 * The state of each node, malloc'd: NODE_SHOWN or NODE_GONE. The root is always shown. What nodes
 * that are gone had measured is taken from the profile, so that nothing adds it up any more.
 */
uint8_t *filter_prune(struct profile *profile);

/*
 * Hides all but the paths through a frame that matches `pattern`, from the root to the leaves.
 * E_INVALID: no regular expression. *matches_out: how many nodes match.
 */
int filter_include(const struct profile *profile, uint8_t *state, const char *pattern,
		   size_t *matches_out, struct proton_error *err);
/* Hides frames that match `pattern`, with everything below them. */
int filter_exclude(const struct profile *profile, uint8_t *state, const char *pattern,
		   size_t *matches_out, struct proton_error *err);
/* Which nodes match, malloc'd. E_INVALID: no regular expression. */
int filter_matches(const struct profile *profile, const char *pattern, bool **matches_out,
		   struct proton_error *err);
/*
 * Which nodes -i and -e count in, for what is made from a tree: those that match `include` and what
 * is below them, but not those that match `exclude` nor what is below them. Either may be NULL.
 */
int filter_select(const struct profile *profile, const char *include, const char *exclude,
		  bool **keeps_out, size_t *matches_out, struct proton_error *err);
/* Puts below the threshold what `is_enough` is false of, and of all its descendants. */
void filter_require(const struct profile *profile, uint8_t *state, const bool *is_enough);
/* The same of what has no value of at least `least`. */
void filter_threshold(const struct profile *profile, uint8_t *state, const double *values,
		      double least);

#endif
