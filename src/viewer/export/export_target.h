/* --export: which format is meant, and what the other options could mean for it. */
#ifndef VIEWER_EXPORT_EXPORT_TARGET_H
#define VIEWER_EXPORT_EXPORT_TARGET_H

#include "base/err.h"
#include "export/export.h"
#include "export/export_view.h"
#include "viewer/query/viewer_options.h"

/* A format of one of the two tables; the other is NULL. */
struct export_target {
	const struct export_format *whole;
	const struct export_view_format *view;
};

/* The format that is asked for, or told by the end of the output's name. E_INVALID: none is. */
int export_target_find(const struct options *options, struct export_target *target,
		       struct proton_error *err);

/*
 * Finds out that the options ask for something that cannot be, before any file is read.
 * E_INVALID with a sentence.
 */
int export_check(const struct options *options, struct proton_error *err);

/* True if other programs compute with the numbers; false: users look at it (html, traces). */
bool export_is_for_programs(const struct options *options);

/*
 * True if what is exported is no profile but columns made by comparing profiles
 * (viewer/numbers/compare.h): of a difference, unless the format compares by itself, or of --merge
 * other than sum.
 */
bool export_is_of_columns(const struct options *options);

#endif
