/* The calling thread's context: its depth. */
#ifndef RECORD_THREAD_THREAD_CONTEXT_H
#define RECORD_THREAD_THREAD_CONTEXT_H

#include <stddef.h>

/* Number of open scopes of the calling thread. */
size_t thread_context_scope_depth(void);
/* Number of frames in the calling thread's source context; 0 without a provider. */
size_t thread_context_source_depth(void);

#endif
