/*
 * Intra-kernel scopes in Chrome's trace event format, with the fields of upstream Proton: process
 * and thread are strings ("mm Core7 CTA12", "warp 0 (line 1)"), and the arguments of each slice are
 * the call stack of its kernel and the times of its warp.
 */
#ifndef EXPORT_CHROME_INTRA_H
#define EXPORT_CHROME_INTRA_H

#include "base/buf.h"
#include "export/timeline.h"
#include "model/profile.h"

struct chrome_intra;

/* True if the trace has records of instrumented kernels. */
bool chrome_intra_has_any(const struct timeline *timeline);

/*
 * `has_events`: an event precedes, so a comma is needed. NULL: out of memory. The arguments must
 * outlive the result. Release with chrome_intra_free().
 */
struct chrome_intra *chrome_intra_new(const struct timeline *timeline, struct out *out,
				      bool *has_events);
void chrome_intra_free(struct chrome_intra *intra);

/* A sink of timeline_walk() for TRACK_UNIT tracks. */
void chrome_intra_track(struct chrome_intra *intra, const struct timeline_track *track);
void chrome_intra_slice(struct chrome_intra *intra, const struct timeline_slice *slice);
/* True if memory ran out. */
bool chrome_intra_has_failed(const struct chrome_intra *intra);

/* The frame's text, quoted; only the beginning if it has more than 1023 bytes. */
void chrome_quote_frame(const struct profile *profile, struct out *out, uint32_t frame);

/*
 * ["ROOT","a","b"]: the path to `node`, which is last; only the innermost 1024 frames of a deep
 * one.
 */
void chrome_call_stack(const struct profile *profile, struct out *out, uint32_t node);

#endif
