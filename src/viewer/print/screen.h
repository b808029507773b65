/* Text of the viewer on standard output, through a pager on a terminal. */
#ifndef VIEWER_PRINT_SCREEN_H
#define VIEWER_PRINT_SCREEN_H

#include <stdbool.h>

#include "base/buf.h"
#include "model/profile.h"
#include "viewer/print/style_options.h"

/* On a terminal, text is collected before a pager gets it. */
void screen_begin(struct out *out, const struct profile *profile,
		  const struct style_options *style);
/*
 * Writes the rest and releases `out`. A reader that closes the pipe early (`| head`) is not an
 * error. False: a message was printed.
 */
bool screen_finish(struct out *out, const struct profile *profile);

#endif
