/* The filters of the command line, for everything that shows nodes: -i, -e, -t and --rows. */
#ifndef VIEWER_QUERY_SELECT_H
#define VIEWER_QUERY_SELECT_H

#include <stdint.h>

#include "viewer/query/derive.h"
#include "viewer/query/viewer_options.h"

/* -i and -e. Changes `state` (filter.h) of each node, as the others do. */
int select_paths(const struct options *options, const struct profile *profile, uint8_t *state,
		 struct proton_error *err);

/* What -t looks at. */
struct thresholds {
	const struct metric_column *first;  /* the first metric */
	const struct metric_column *others; /* of each METRIC=VALUE */
	bool by_magnitude;                  /* of changes: whatever their sign */
};

int select_least(const struct options *options, const struct profile *profile,
		 const struct thresholds *thresholds, uint8_t *state, struct proton_error *err);

/* Of a flat table the `rows` largest, equals in the order of the file. */
void select_rows(const struct profile *profile, const double *values, size_t rows,
		 bool by_magnitude, uint8_t *state);

#endif
