/* What the user may have meant by a metric that is not there. */
#ifndef VIEWER_QUERY_NEAREST_H
#define VIEWER_QUERY_NEAREST_H

#include <stddef.h>

#include "viewer/query/raw_metrics.h"

/* Writes " (near: a, b, c)" with up to three names, or "" if none is near. */
void nearest_names(const struct metrics *metrics, const char *name, char *text, size_t capacity);

/* Edits (insert, delete, replace, swap of neighbours) between two names, not beyond `limit` + 1. */
size_t nearest_distance(const char *a, const char *b, size_t limit);

#endif
