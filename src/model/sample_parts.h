/*
 * Division of one function's samples between kernel nodes, in proportion to the function's time in
 * each: integers that add up, per node, line and stall reason.
 */
#ifndef MODEL_SAMPLE_PARTS_H
#define MODEL_SAMPLE_PARTS_H

#include "model/profile.h"
#include "model/sample_lines.h"

#define SAMPLES_REASONS_MAX 128u

/* A node that samples are divided between. */
struct part_target {
	uint32_t node;
	uint64_t weight;
	uint64_t share; /* its part of the divided samples */
	uint64_t left;  /* the rest of its share, while cells are divided */
};

/* Samples of one line with one reason; of one node, or to be divided. */
struct part_cell {
	uint32_t node; /* + 1; 0: to be divided */
	uint32_t frame;
	uint32_t reason;
	uint64_t samples;
};

struct sample_parts {
	struct profile *profile;
	const struct profile_samples *samples;
	struct hash_table *children; /* nodes of lines: hash_pair(parent, frame); the caller's */
	struct part_target *targets;
	struct part_cell *cells; /* then also the divided ones */
	size_t target_count, target_capacity;
	size_t cell_count, cell_capacity;
};

void parts_target(struct sample_parts *parts, uint32_t node, uint64_t weight);
void parts_cell(struct sample_parts *parts, uint32_t node, uint32_t frame, uint32_t reason,
		uint64_t samples);
/*
 * Divides the cells, adds all to the tree, and frees the parts. Returns the number of samples that
 * were divided between several nodes.
 */
uint64_t parts_finish(struct sample_parts *parts, const struct lines *lines);

/* The metric (a string) of a stall reason with this name of the vendor. */
uint32_t samples_reason_metric(struct profile *profile, uint32_t reason);

#endif
