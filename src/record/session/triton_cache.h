/*
 * Triton's cache on disk: a directory per compiled kernel, with NAME.cubin, NAME.ptx and others.
 */
#ifndef RECORD_SESSION_TRITON_CACHE_H
#define RECORD_SESSION_TRITON_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* A directory that the program's environment does not name; the latest few are kept. */
void triton_cache_add(const char *path);

/*
 * Visits the directories of kernels, in all caches, until `visit` returns false or 2 s have passed:
 * it delays the program.
 */
void triton_cache_walk(bool (*visit)(void *user, const char *directory), void *user);

#endif
