/* Launch configuration of a kernel as readable text. */
#ifndef VIEWER_PRINT_CONFIG_TEXT_H
#define VIEWER_PRINT_CONFIG_TEXT_H

#include "base/buf.h"
#include "model/profile.h"

/*
 * Appends "<<<GRID,BLOCK>>> R regs S shared" for the configuration with the longest total time on
 * this node, and " +N" for N others; nothing if none is known.
 */
void config_text_write(struct out *out, const struct profile *profile, uint32_t node);

#endif
