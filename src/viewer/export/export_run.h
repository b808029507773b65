/*
 * Exports: the profile with the metrics and filters of the screen, in a format of other tools.
 */
#pragma once

#include "model/profile.h"
#include "viewer/query/input.h"
#include "viewer/query/view.h"
#include "viewer/viewer_options.h"

/*
 * Writes the export that `options` request. *base is the baseline of a report, or NULL. Removes
 * launch metadata from the profiles; --top, --group and --bottom-up replace them. `input` is what
 * *profile was made from: the time line of a report reads it again.
 */
int export_run(const struct options *options, struct input *input, struct profile **profile,
	       struct profile **base, struct proton_error *err);

/*
 * Writes columns made by comparing profiles, see export_is_of_columns(). view_filter() has selected
 * the nodes. Takes the columns that it writes.
 */
int export_columns(const struct options *options, struct view *view, struct proton_error *err);

/* --strip: a copy of a profile file without identities, source text and machine code. */
int strip_run(const char *path, const char *output, bool no_clobber, struct proton_error *err);
