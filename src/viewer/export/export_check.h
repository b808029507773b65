/* Checks of the output before any input is read: its format with other options, and its path. */
#pragma once

#include <sys/stat.h>

#include "base/err.h"
#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/* Rejects options that cannot be combined, before any file is read. E_INVALID with a message. */
int export_check(const struct options *options, struct proton_error *err);

/*
 * The output (a file, or the target of redirected standard output) must differ from the inputs
 * under any name or link. A file must be writable, and must not exist with --no-clobber. E_INVALID
 * or E_IO.
 */
int output_check(const struct options *options, const struct input *input, const struct input *base,
		 struct proton_error *err);

/* The name of the input that is this file; NULL: none is. */
const char *output_find_input(const struct input *input, const struct stat *output);
/* E_INVALID: a profile there would be read as one of the ranks in a directory NAME.ranks. */
int output_check_place(const char *path, struct proton_error *err);

/* True if other programs compute with the values; false: users look at them (html, traces). */
bool export_is_for_programs(const struct exporter *exporter);

/*
 * True if the export has columns made by comparing profiles (viewer/numbers/compare.h) instead of a
 * profile: with --diff, unless the format compares profiles itself, or with --merge other than sum.
 */
bool export_is_of_columns(const struct options *options);
