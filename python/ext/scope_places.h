/* Scopes between the Python frames of a walk: context "python+scopes". */
#ifndef EXT_SCOPE_PLACES_H
#define EXT_SCOPE_PLACES_H

#include "python_frames.h"

/* The place of a scope that is entered by the frame at `index` of the walk; never 0. */
uint64_t scope_place(const struct frame_walk *walk, uint32_t index);

/*
 * Inserts the open scopes of the calling thread into its walk, each below the frame that entered
 * it, as visits for which scope_visit_frame() is true. The walk had `total` frames before those of
 * other work were cut off at the root; scopes that they entered are left out. False if memory ran
 * out.
 */
bool scope_places_insert(struct frame_walk *walk, uint32_t total);

/* Not a Python frame but a scope: its frame, for libproton; 0: it is a Python frame. */
extern PyCodeObject *const scope_visit_code;
static inline uint32_t scope_visit_frame(const struct frame_visit *visit)
{
	return visit->code == scope_visit_code ? (uint32_t)visit->place : 0;
}

#endif
