/* Output of a view: on the screen, or as the format that was asked for. */
#ifndef VIEWER_EXPORT_REPORT_SHOW_H
#define VIEWER_EXPORT_REPORT_SHOW_H

#include "model/profile.h"
#include "viewer/print/report_table.h"
#include "viewer/viewer_options.h"

/* Prints, or with --csv, --json or -o writes. Returns the exit status: 0, or 2 after a message. */
int report_show(const struct options *options, const struct profile *profile,
		report_write_fn *write, const void *context);

/* Prints the text, whatever format was asked for. */
int report_show_text(const struct options *options, const struct profile *profile,
		     report_write_fn *write, const void *context);

#endif
