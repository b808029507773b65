/* The calling thread's context: its depth. */
#ifndef RECORD_THREAD_THREAD_CONTEXT_H
#define RECORD_THREAD_THREAD_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Number of frames in its source context (0 without a provider), or of its open scopes. */
size_t thread_context_depth(bool wants_source);

#endif
