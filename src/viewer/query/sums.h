/* Sums of profiles, for commands that end if memory is exhausted. */
#ifndef VIEWER_QUERY_SUMS_H
#define VIEWER_QUERY_SUMS_H

#include "model/merge.h"

/* A merge into a new profile. */
struct merge *sum_begin(struct profile **sum_out);
/* Adds a profile and frees it. */
void sum_add(struct merge *merge, struct profile *source);
/* Frees the merge; returns the sum. */
struct profile *sum_end(struct merge *merge, struct profile *sum);

#endif
