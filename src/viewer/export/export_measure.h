/*
 * From the viewer's columns to the metrics of export/export_view.h: what the tree shows, what each
 * frame adds itself (which is what stacks and flame graphs are drawn of), and the unit.
 */
#ifndef VIEWER_EXPORT_EXPORT_MEASURE_H
#define VIEWER_EXPORT_EXPORT_MEASURE_H

#include "export/export_view.h"
#include "viewer/query/derive.h"

/* A metric, and the memory behind it. */
struct measure {
	struct metric_column total;
	struct metric_column own;
	uint32_t *total_starts, *own_starts; /* of packed ones */
};

void measure_fini(struct measure *measure);

/*
 * Fills measure->own from measure->total if it adds up: what a node recorded itself, with what is
 * hidden directly below it. `shown` is yes or no per node.
 */
void measure_own(struct measure *measure, struct derive *derive, const char *name,
		 const uint8_t *shown);
/* The same for a column that was compared or averaged: a total without that of what is below. */
void measure_compared(struct measure *measure, const struct profile *profile, const uint8_t *shown);

/* As an exporter wants it; borrows from the measure. */
struct export_metric measure_describe(const struct measure *measure, const struct profile *profile,
				      const uint8_t *shown);

/*
 * Turns numbers per node, of which most are the same as the one before, into runs. Returns the
 * bytes that they take now.
 */
size_t measure_pack(struct measure *measure, struct export_metric *metric, size_t node_count);

#endif
