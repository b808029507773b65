/* Check of the output path before any input is read. */
#ifndef VIEWER_EXPORT_OUTPUT_CHECK_H
#define VIEWER_EXPORT_OUTPUT_CHECK_H

#include "base/err.h"
#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/*
 * The output (a file, or the target of redirected standard output) must differ from the inputs
 * under any name or link. A file must be writable, and must not exist with --no-clobber. E_INVALID
 * or E_IO.
 */
int output_check(const struct options *options, const struct input *input, const struct input *base,
		 struct proton_error *err);

#endif
