/* What a kernel was launched with, as people read it. */
#ifndef VIEWER_PRINT_CONFIG_TEXT_H
#define VIEWER_PRINT_CONFIG_TEXT_H

#include "base/buf.h"
#include "model/profile.h"

/*
 * Appends "<<<GRID,BLOCK>>> R regs S shared", of the configuration that took the most time on this
 * node, and " +N" for N more; nothing if none is known.
 */
void config_text_write(struct out *out, const struct profile *profile, uint32_t node);

#endif
