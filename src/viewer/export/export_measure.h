/*
 * Conversion of the viewer's columns to the metrics of export/export_view.h: inclusive values,
 * which the tree shows, exclusive values, which stacks and flame graphs are made of, and the unit.
 */
#pragma once

#include "export/export_view.h"
#include "viewer/query/derive.h"

/* A metric and the memory that belongs to it. */
struct measure {
	struct metric_column total;
	struct metric_column own;
	uint32_t *total_starts, *own_starts; /* of packed values */
};

void measure_fini(struct measure *measure);

/*
 * Computes measure->own from measure->total for an additive metric: the exclusive value of each
 * node plus the values of hidden nodes directly below it. `shown` is true or false per node.
 */
void measure_own(struct measure *measure, const struct metrics *metrics, const char *name,
		 const uint8_t *shown);
/*
 * The same for a column of compared or averaged values: the total minus the totals of the children.
 */
void measure_compared(struct measure *measure, const struct profile *profile, const uint8_t *shown);

/* The metric in the form that exporters take; borrows from the measure. */
struct export_metric measure_describe(const struct measure *measure, const struct profile *profile,
				      const uint8_t *shown);

/*
 * Run-length encodes the values per node: most equal the one before. Returns the new size in bytes.
 */
size_t measure_pack(struct measure *measure, struct export_metric *metric, size_t node_count);
