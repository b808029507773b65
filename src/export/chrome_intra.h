/*
 * Intra-kernel scopes in Chrome's trace event format, with the fields of upstream Proton: the
 * process is a text ("mm Core7 CTA12"), the thread a text ("warp 0 (line 1)"), and each slice has
 * the call stack of its kernel and the times of its warp as arguments.
 */
#ifndef EXPORT_CHROME_INTRA_H
#define EXPORT_CHROME_INTRA_H

#include "base/buf.h"
#include "export/timeline.h"

struct chrome_intra;

/* True if the trace has records of instrumented kernels. */
bool chrome_intra_has_any(const struct timeline *timeline);

/*
 * `has_events`: an event was written before, a comma is due. NULL: out of memory. All three must
 * outlive it. Freed by chrome_intra_free().
 */
struct chrome_intra *chrome_intra_new(const struct timeline *timeline, struct out *out,
				      bool *has_events);
void chrome_intra_free(struct chrome_intra *intra);

/* A sink of timeline_walk() for tracks of the kind TRACK_UNIT. */
void chrome_intra_track(struct chrome_intra *intra, const struct timeline_track *track);
void chrome_intra_slice(struct chrome_intra *intra, const struct timeline_slice *slice);
/* True if memory ran out meanwhile. */
bool chrome_intra_has_failed(const struct chrome_intra *intra);

#endif
