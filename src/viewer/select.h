/* The filters of the command line, for everything that shows nodes: -i, -e and -t. */
#ifndef VIEWER_SELECT_H
#define VIEWER_SELECT_H

#include <stdint.h>

#include "viewer/derive.h"
#include "viewer/options.h"

/* -i and -e alone. */
int select_paths(const struct options *options, const struct profile *profile, uint8_t *state,
		 struct proton_error *err);
/* Changes `state` (filter.h) of each node. `first` is the first metric, which -t looks at. */
int select_nodes(const struct options *options, const struct profile *profile,
		 const struct metric_column *first, uint8_t *state, struct proton_error *err);

#endif
