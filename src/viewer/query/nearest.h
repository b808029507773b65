/* Suggestions for the name of a metric that does not exist. */
#ifndef VIEWER_QUERY_NEAREST_H
#define VIEWER_QUERY_NEAREST_H

#include <stddef.h>

#include "viewer/query/raw_metrics.h"

/* The name of the derived metric at `index`, NULL after the last: derive_available(). */
typedef const char *(*nearest_derived_fn)(const struct metrics *metrics, size_t index,
					  const char **family_out);

/* Writes " (near: a, b, c)" with up to three names, or "" if none is similar. */
void nearest_names(const struct metrics *metrics, nearest_derived_fn derived_at, const char *name,
		   char *text, size_t capacity);

#endif
