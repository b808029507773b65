/* Messages and tables about the ranks of a merged job. */
#ifndef VIEWER_RANKS_RANK_REPORT_H
#define VIEWER_RANKS_RANK_REPORT_H

#include "base/buf.h"
#include "model/profile.h"

/* Ranks that are not finished, and names that differ. False: some ranks are not finished. */
bool rank_report_state(const struct profile *profile);

/*
 * The nodes with the largest time that could be saved if all ranks took the mean: as a table, or as
 * JSON. `rows` 0: 30 of the table, all of JSON.
 */
void rank_report_table(const struct profile *profile, size_t rows, struct out *out);
void rank_report_json(const struct profile *profile, size_t rows, struct out *out);

#endif
