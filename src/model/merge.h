/*
 * Adding nodes of profiles to another profile: the base of everything that puts profiles together
 * (ranks, parts) or turns one around (by kernel, by caller). Frames, metrics and devices of a
 * source are found or added in the target by content; rows that meet in one node are added up:
 *
 * - numbers are summed, vectors of one length too; a property, a string, or a vector of another
 *   length is that of the later source. An integer and a double of one name become a double.
 * - kernels are summed by device, their extremes and histograms merged. What one of them does not
 *   know is not known of the sum.
 *
 * A target node has at most one child per frame. Nothing fails: when memory is out,
 * target->out_of_memory is set.
 */
#ifndef MODEL_MERGE_H
#define MODEL_MERGE_H

#include "model/profile.h"

struct merge;

/* A merger into `target`, which is borrowed and must outlive it. NULL when memory is out. */
struct merge *merge_new(struct profile *target);
/* Ends merging: the target is complete after it. NULL ok. */
void merge_free(struct merge *merge);

/* What follows is about nodes of `source` (borrowed until the next call or merge_free()). */
void merge_source(struct merge *merge, const struct profile *source);

/* The target's child of `parent` with a frame of the source; found or added. */
uint32_t merge_child(struct merge *merge, uint32_t parent, uint32_t source_frame);
/* The same with a frame that is a name only. */
uint32_t merge_child_named(struct merge *merge, uint32_t parent, const char *name);

/* Adds the rows of a source's node to a target's node: values, kernels, or both. */
void merge_values(struct merge *merge, uint32_t source_node, uint32_t target_node);
void merge_kernels(struct merge *merge, uint32_t source_node, uint32_t target_node);
/* Adds one row of source->kernels. */
void merge_kernel(struct merge *merge, uint32_t source_kernel, uint32_t target_node);

/*
 * Adds what is said about the whole run: times (the earliest start, the latest end), what differs
 * not in the info, counters by name, whether it is unfinished or damaged.
 */
void merge_about(struct merge *merge);

/*
 * Adds a whole tree, with what merge_about() adds. Returns the target's node for each node of the
 * source, malloc'd; NULL when memory is out.
 */
uint32_t *merge_tree(struct merge *merge);

#endif
