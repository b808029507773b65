/*
 * Metric properties that are known only after reading a whole tree of another format: which metrics
 * are inclusive (their names are on ROOT), and which are doubles although some values were written
 * as integers.
 */
#ifndef MODEL_SETTLE_H
#define MODEL_SETTLE_H

#include "model/profile.h"

struct root_name {
	uint32_t name; /* string */
	uint16_t type; /* enum proton_metric_type of the value on ROOT */
};

struct root_metrics {
	struct root_name *names; /* malloc'd; sorted by settle_metrics() */
	size_t count, capacity;
	bool is_known; /* ROOT's metrics were read */
};

/*
 * Sets every metric's flags, adds the metrics that are only on ROOT, and merges two metrics of the
 * same name with different number types into one of doubles. That rounds integers above 2^53.
 */
void settle_metrics(struct profile *profile, struct root_metrics *root);

#endif
