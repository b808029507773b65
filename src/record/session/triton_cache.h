/* Triton's cache on disk: a directory per kernel, with NAME.cubin, NAME.ptx and others. */
#ifndef RECORD_SESSION_TRITON_CACHE_H
#define RECORD_SESSION_TRITON_CACHE_H

#include <stdbool.h>

/* Visits kernels' directories in all caches, until `visit` returns false, or for 2 s. */
void triton_cache_walk(bool (*visit)(void *user, const char *directory), void *user);

#endif
