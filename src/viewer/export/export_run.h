/* --export: the same profile, metrics and filters as on the screen, in a format for other tools. */
#ifndef VIEWER_EXPORT_EXPORT_RUN_H
#define VIEWER_EXPORT_EXPORT_RUN_H

#include "model/profile.h"
#include "viewer/query/arrange.h"
#include "viewer/query/viewer_options.h"

/*
 * Writes what `options` ask for. *base is what a report compares with, or NULL. What belongs to
 * launch metadata is taken from the profiles, and --top, --group and --bottom-up replace them.
 */
int export_run(const struct options *options, struct profile **profile, struct profile **base,
	       struct proton_error *err);

/*
 * Writes columns that were made by comparing profiles, see export_is_of_columns(). What the view
 * shows has been chosen with view_filter(). Takes the columns that it writes.
 */
int export_columns(const struct options *options, struct view *view, struct proton_error *err);

#endif
