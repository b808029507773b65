/* Metric values of one event of a Chrome trace, as strings like upstream's and as numbers. */
#ifndef EXPORT_CHROME_VALUES_H
#define EXPORT_CHROME_VALUES_H

#include "base/buf.h"
#include "export/timeline.h"

/* Further metrics of an event are omitted; the tree has them. */
#define CHROME_VALUES_MAX 64u

struct chrome_value {
	const struct row_metric *metric;
	struct row_sample sample; /* the sum of the values added to the event */
};

struct chrome_values {
	const struct timeline *timeline;
	struct chrome_value values[CHROME_VALUES_MAX]; /* by name */
	uint32_t count;
};

/* Collects the values from row `first` of the event metric values on; 0: none. */
void chrome_values_read(struct chrome_values *values, const struct timeline *timeline,
			uint32_t first);
/* "name: <m1, 1.000000>, <m2, [1,2]>", quoted. false: out of memory. */
bool chrome_values_quote(const struct chrome_values *values, struct out *out, uint32_t frame);
/* ,"metrics":{"m1":"1.000000"},"values":{"m1":1.0}   false: out of memory. */
bool chrome_values_write(const struct chrome_values *values, struct out *out);

#endif
