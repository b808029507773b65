/* Whether the output may be written, found out before anything is read. */
#ifndef VIEWER_EXPORT_OUTPUT_CHECK_H
#define VIEWER_EXPORT_OUTPUT_CHECK_H

#include "base/err.h"
#include "viewer/query/input.h"
#include "viewer/query/viewer_options.h"

/*
 * The output, a file or what standard output is redirected to, is none of the inputs by whatever
 * name or link; a file can be written; with --no-clobber there is none. E_INVALID or E_IO.
 */
int output_check(const struct options *options, const struct input *input, const struct input *base,
		 struct proton_error *err);

#endif
