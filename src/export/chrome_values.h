/*
 * Metric values of one event of a Chrome trace: as texts, which is what upstream Proton writes, and
 * as numbers.
 */
#ifndef EXPORT_CHROME_VALUES_H
#define EXPORT_CHROME_VALUES_H

#include "base/buf.h"
#include "export/timeline.h"

/* Further metrics of one event are left out; they are in the tree. */
#define CHROME_VALUES_MAX 64u

struct chrome_value {
	const struct profile_metric *metric;
	struct row_sample sample; /* values that were added to the event: their sum */
};

struct chrome_values {
	const struct timeline *timeline;
	struct chrome_value values[CHROME_VALUES_MAX]; /* by name */
	uint32_t count;
};

/* Collects the values from row `first` of the samples on; 0: none. */
void chrome_values_read(struct chrome_values *values, const struct timeline *timeline,
			uint32_t first);
/* "name: <m1, 1.000000>, <m2, [1,2]>", quoted. false: out of memory. */
bool chrome_values_quote(const struct chrome_values *values, struct out *out, uint32_t frame);
/* ,"metrics":{"m1":"1.000000"},"values":{"m1":1.0}   false: out of memory. */
bool chrome_values_write(const struct chrome_values *values, struct out *out);

#endif
