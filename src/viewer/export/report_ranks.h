/* Page of ranks in the HTML report: a heat map of ranks, or hosts, and frames, as JSON. */
#ifndef VIEWER_EXPORT_REPORT_RANKS_H
#define VIEWER_EXPORT_REPORT_RANKS_H

#include "base/buf.h"
#include "base/err.h"
#include "viewer/viewer_options.h"

/* Writes nothing for a profile that has no times of single ranks. */
int report_ranks_write(const struct profile *profile, const struct options *options,
		       struct out *out, struct proton_error *err);

#endif
