/*
 * PTX of sampled kernels, for cubins without the calls that were inlined: those of Triton 3.6 and
 * 3.7. Triton keeps the PTX next to the cubin in its cache on disk; the profile gets a copy of the
 * locations.
 */
#ifndef RECORD_SESSION_SAMPLE_PTX_H
#define RECORD_SESSION_SAMPLE_PTX_H

#include "model/profile.h"
#include "record/store/store.h"

/* `profile` is the store's. True if something was stored: it is then to be loaded again. */
bool sample_ptx_store(struct store *store, const struct profile *profile);

#endif
