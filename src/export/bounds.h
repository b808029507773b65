/*
 * Limits on the size of an output. A small untrusted file can demand a huge output, for example the
 * path of each frame of a long chain, or a number per frame and metric. An output that is too large
 * is rejected with an error, before it is written if possible.
 */
#pragma once

#include "base/err.h"
#include "model/profile.h"

/* The size of a profile in bytes; about the size of its .proton file. */
uint64_t bounds_profile_bytes(const struct profile *profile);

/* The maximum output size in bytes: 1000 times the profile, less for large profiles. */
uint64_t bounds_output(const struct profile *profile);
/* E_RANGE with a message. */
int bounds_refuse(const struct profile *profile, struct proton_error *err);

/*
 * E_RANGE with a message if columns of `metrics`, each of `bytes` per frame, exceed the rest of the
 * budget of the profile's files (format/profile_view.h). A few are always allowed.
 */
int bounds_columns(const struct profile *profile, uint64_t metrics, uint64_t bytes,
		   struct proton_error *err);
/* The rest of that budget. */
uint64_t bounds_memory_left(const struct profile *profile);

/* The longest path: at 2 bytes per level, a stack of two million frames. */
#define BOUNDS_PATH_BYTES (4u << 20)
