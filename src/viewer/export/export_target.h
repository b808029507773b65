/* --export: choice of the format, and checks of the options that are combined with it. */
#ifndef VIEWER_EXPORT_EXPORT_TARGET_H
#define VIEWER_EXPORT_EXPORT_TARGET_H

#include "base/err.h"
#include "export/export.h"
#include "export/export_view.h"
#include "viewer/query/viewer_options.h"

/* A format of one of the two tables; the other pointer is NULL. */
struct export_target {
	const struct export_format *whole;
	const struct export_view_format *view;
};

/* The requested format, or the one that the suffix of the output selects. E_INVALID: no format. */
int export_target_find(const struct options *options, struct export_target *target,
		       struct proton_error *err);

/* Rejects options that cannot be combined, before any file is read. E_INVALID with a message. */
int export_check(const struct options *options, struct proton_error *err);

/* True if other programs compute with the values; false: users look at them (html, traces). */
bool export_is_for_programs(const struct options *options);

/*
 * True if the export has columns made by comparing profiles (viewer/numbers/compare.h) instead of a
 * profile: with --diff, unless the format compares profiles itself, or with --merge other than sum.
 */
bool export_is_of_columns(const struct options *options);

#endif
