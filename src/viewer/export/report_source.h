/* The page of annotated source of the HTML report, as JSON: export/html/source.js draws it. */
#ifndef VIEWER_EXPORT_REPORT_SOURCE_H
#define VIEWER_EXPORT_REPORT_SOURCE_H

#include "viewer/viewer_options.h"

/*
 * Writes the kernels with PC samples, their lines, and the source text that the profile contains;
 * with --sass, also the instructions. Writes nothing if there are no samples.
 * May add frames to the profile.
 */
int report_source_write(struct profile *profile, const struct options *options, struct out *out,
			struct proton_error *err);

#endif
