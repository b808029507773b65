/* --strip: a copy of a profile file without identities, source text and machine code. */
#ifndef VIEWER_EXPORT_STRIP_RUN_H
#define VIEWER_EXPORT_STRIP_RUN_H

#include <stdbool.h>

#include "base/err.h"

int strip_run(const char *path, const char *output, bool no_clobber, struct proton_error *err);

#endif
