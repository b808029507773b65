/* Frames and call stacks of nodes as JSON, for Chrome traces. */
#ifndef EXPORT_CHROME_FRAME_H
#define EXPORT_CHROME_FRAME_H

#include "base/buf.h"
#include "model/profile.h"

/* The frame's text, quoted; only the beginning if it has more than 1023 bytes. */
void chrome_quote_frame(const struct profile *profile, struct out *out, uint32_t frame);

/*
 * ["ROOT","a","b"]: the path to `node`, which is last; only the innermost 1024 frames of a deep
 * one.
 */
void chrome_call_stack(const struct profile *profile, struct out *out, uint32_t node);

#endif
