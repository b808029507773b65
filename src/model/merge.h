/*
 * Merging of profiles: adds nodes of source profiles to a target. It is the base of everything that
 * combines profiles (ranks, parts) or regroups one (by kernel, by caller). Frames, metrics and
 * devices of a source are found or added in the target by content. Rows of the same node are
 * combined:
 *
 * - Numbers are summed, and so are vectors of equal length. For a property, a string, or vectors of
 *   different length, the later source wins. An integer and a double of one name become a double.
 * - Kernels are summed by device, and their extremes and histograms are merged. If one of them
 *   lacks a value, the sum lacks it.
 *
 * A target node has at most one child per frame. Nothing fails: if out of memory,
 * target->out_of_memory is set.
 */
#pragma once

#include "model/profile.h"

struct merge;

/* A merge into `target`, which is borrowed and must outlive it. NULL if out of memory. */
struct merge *merge_new(struct profile *target);
/* Ends merging: the target is then complete. NULL ok. */
void merge_free(struct merge *merge);

/*
 * Adds no more nodes to a target with this many: their data is summed in one node below
 * the root. For ranks with different names.
 */
#define MERGE_OTHER "(other nodes)"
void merge_limit(struct merge *merge, size_t nodes);

/* Where the rows of a source are in the target. */
struct merge_maps {
	uint32_t *nodes;   /* by node of the source */
	uint32_t *values;  /* by value */
	uint32_t *metrics; /* by metric */
	uint32_t other;    /* the node for further ones; 0: the limit was not reached */
};

/*
 * Merges a whole tree. Returns the places of its rows, borrowed until the next call; NULL if out of
 * memory.
 */
const struct merge_maps *merge_tree(struct merge *merge, const struct profile *source);

/*
 * To merge single nodes: selects the source of the following calls (borrowed until the next call or
 * merge_free()).
 */
void merge_source(struct merge *merge, const struct profile *source);

/* The target's child of `parent` with this frame of the source; found or added. */
uint32_t merge_child(struct merge *merge, uint32_t parent, uint32_t source_frame);
/* With a frame that is only a name. */
uint32_t merge_child_named(struct merge *merge, uint32_t parent, const char *name);

/* Adds the values and kernels of a source's node to a node of the target. */
void merge_values(struct merge *merge, uint32_t source_node, uint32_t target_node);
void merge_kernels(struct merge *merge, uint32_t source_node, uint32_t target_node);
/* Adds one row of source->kernels. */
void merge_kernel(struct merge *merge, uint32_t source_kernel, uint32_t target_node);

/*
 * Merges data about the whole run: times (earliest start, latest end), info that does not differ,
 * counters by name, and whether it is incomplete or corrupt.
 */
void merge_about(struct merge *merge);
