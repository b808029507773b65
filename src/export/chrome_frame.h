/* Frames and call stacks of nodes as JSON, for Chrome traces. */
#ifndef EXPORT_CHROME_FRAME_H
#define EXPORT_CHROME_FRAME_H

#include "base/buf.h"
#include "model/profile.h"

/* The frame's text, quoted; of a frame of more than 1023 bytes the beginning. */
void chrome_quote_frame(const struct profile *profile, struct out *out, uint32_t frame);

/* ["ROOT","a","b"]: the path to `node`, itself last; of a deep one the innermost 1024 frames. */
void chrome_call_stack(const struct profile *profile, struct out *out, uint32_t node);

#endif
