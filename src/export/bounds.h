/*
 * Limits on the size of an output. A small untrusted file can demand a huge output, for example the
 * path of each frame of a long chain, or a number per frame and metric. An output that is too large
 * is rejected with an error, before it is written if possible.
 */
#ifndef EXPORT_BOUNDS_H
#define EXPORT_BOUNDS_H

#include "base/err.h"
#include "model/profile.h"

/* The size of a profile in bytes; about the size of its .proton file. */
uint64_t bounds_profile_bytes(const struct profile *profile);

/* The maximum output size in bytes: 1000 times the profile, less for large profiles. */
uint64_t bounds_output(const struct profile *profile);
/* E_RANGE with a message. */
int bounds_refuse(const struct profile *profile, struct proton_error *err);

/* The longest path: at 2 bytes per level, a stack of two million frames. */
#define BOUNDS_PATH_BYTES (4u << 20)

#endif
