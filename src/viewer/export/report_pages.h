/* Parts of the HTML report that are made from a profile: its tables, and two pages as JSON. */
#pragma once

#include "export/export_view.h"
#include "viewer/query/raw_metrics.h"
#include "viewer/viewer_options.h"

/*
 * The kernels and devices of a profile. `shown`: per node, true if it counts. Release with
 * report_fini().
 */
void report_init(struct export_report *report, const struct metrics *metrics, const uint8_t *shown);
void report_fini(struct export_report *report);

/* The page of ranks. Writes nothing for a profile that has no times of single ranks. */
void report_ranks_write(const struct profile *profile, const struct options *options,
			struct out *out);

/*
 * The page of annotated source, which export/html/source.js draws: the kernels with PC samples,
 * their lines, and the source text that the profile contains; with --sass, also the instructions.
 * Writes nothing if there are no samples. May add frames to the profile.
 */
int report_source_write(struct profile *profile, const struct options *options, struct out *out,
			struct proton_error *err);
