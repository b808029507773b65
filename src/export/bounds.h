/*
 * How large an output may be: the viewer reads files from anywhere, and a small one can ask for
 * very much, such as the path of each frame of a long chain, or a number per frame and metric. What
 * is too large is refused with an error, before it is made where that can be told.
 */
#ifndef EXPORT_BOUNDS_H
#define EXPORT_BOUNDS_H

#include "base/err.h"
#include "model/profile.h"

/* What a profile holds, in bytes; about the size of its .proton. */
uint64_t bounds_profile_bytes(const struct profile *profile);

/* The most bytes of an output of this profile: 1000 times itself, of large ones fewer. */
uint64_t bounds_output(const struct profile *profile);
/* E_RANGE, with an error that says so. */
int bounds_refuse(const struct profile *profile, struct proton_error *err);

/* The longest path: 2 bytes a level are a stack of two million frames. */
#define BOUNDS_PATH_BYTES (4u << 20)

#endif
