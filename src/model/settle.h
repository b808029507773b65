/*
 * What can be said about metrics only when a whole tree from foreign text has been read: which are
 * inclusive (their names stand on ROOT), and which are doubles though some values were written as
 * integers.
 */
#ifndef MODEL_SETTLE_H
#define MODEL_SETTLE_H

#include "model/profile.h"

struct root_name {
	uint32_t name; /* string */
	uint16_t type; /* enum proton_metric_type, of what stood on ROOT */
};

struct root_metrics {
	struct root_name *names; /* malloc'd; sorted by settle_metrics() */
	size_t count, capacity;
	bool is_known; /* ROOT's metrics were read */
};

/*
 * Sets every metric's flags, adds the metrics that stand on ROOT alone, and makes one double metric
 * of two of the same name that differ in number type. Integers above 2^53 are rounded by that.
 */
void settle_metrics(struct profile *profile, struct root_metrics *root);

#endif
