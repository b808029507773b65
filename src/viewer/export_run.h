/* --export: the same profile, metrics and filters as on the screen, in a format for other tools. */
#ifndef VIEWER_EXPORT_RUN_H
#define VIEWER_EXPORT_RUN_H

#include "model/profile.h"
#include "viewer/options.h"

/*
 * Finds out that the options ask for something that cannot be, before any file is read.
 * E_INVALID with a sentence.
 */
int export_check(const struct options *options, struct proton_error *err);

/*
 * Writes what `options` ask for. `base` is what a report compares with, or NULL. What belongs to
 * launch metadata is taken from the profiles.
 */
int export_run(const struct options *options, struct profile *profile, struct profile *base,
	       struct proton_error *err);

#endif
