/*
 * Triton's cache on disk: a directory per compiled kernel, with NAME.cubin, NAME.ptx and others.
 */
#ifndef RECORD_SESSION_TRITON_CACHE_H
#define RECORD_SESSION_TRITON_CACHE_H

#include <stdbool.h>

/*
 * Visits the directories of kernels, in all caches, until `visit` returns false or 2 s have passed:
 * it delays the program.
 */
void triton_cache_walk(bool (*visit)(void *user, const char *directory), void *user);

#endif
