/*
 * Output of the viewer: the screen, an atomically replaced file, or standard output. A signal that
 * ends the program (Ctrl-C) leaves no incomplete file.
 */
#pragma once

#include "base/buf.h"
#include "model/profile.h"
#include "viewer/export/exporters.h"
#include "viewer/viewer_options.h"

/* Writes everything; errors of `out` are sticky. */
typedef int save_write_fn(const void *context, struct out *out, struct proton_error *err);

/*
 * Writes to the path of the options, in the size that a profile may have. Symbolic links are
 * followed. Devices, pipes and the file that standard output is redirected to are written to, not
 * replaced. With --no-clobber, a file that exists by then is kept, which is an error. A reader that
 * closes the pipe early (`| head`) is not an error.
 */
int save_output(const struct output_options *output, const struct profile *profile,
		save_write_fn *write, const void *context, struct proton_error *err);

/* Prints, or with --csv, --json or -o writes. Returns the exit status: 0, or 2 after a message. */
int report_show(const struct options *options, const struct profile *profile,
		report_write_fn *write, const void *context);
