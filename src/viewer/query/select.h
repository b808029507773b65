/* Selection of nodes for all views: -i, -e, -t, --rows, and the size limit of a terminal. */
#pragma once

#include "viewer/query/derive.h"
#include "viewer/query/view.h"
#include "viewer/viewer_options.h"

/* Applies -i and -e. Like the other functions, it changes the `state` (filter.h) of nodes. */
int select_paths(const struct options *options, const struct profile *profile, uint8_t *state,
		 struct proton_error *err);

/* The columns that -t tests. */
struct thresholds {
	const struct metric_column *first;  /* the first metric */
	const struct metric_column *others; /* for each METRIC=VALUE */
	bool by_magnitude;                  /* of changes: compare absolute values */
};

int select_minimum(const struct options *options, const struct profile *profile,
		   const struct thresholds *thresholds, uint8_t *state, struct proton_error *err);

/* Shows the `rows` largest rows of a flat table; equal ones in file order. */
void select_rows(const struct profile *profile, const double *values, size_t rows,
		 bool by_magnitude, uint8_t *state);

#define SELECT_FRAMES 200 /* on a terminal */
#define MARKDOWN_FRAMES 30

/*
 * Keeps `frames` frames with the largest values in the sort column, and their ancestors.
 * The others become NODE_BELOW, or rows of a flat table are omitted. view->cut
 * describes what is omitted.
 */
void select_largest(struct view *view, size_t frames);
