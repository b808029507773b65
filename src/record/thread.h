/*
 * What each thread keeps for itself: its stack of scopes, its states, the launch in progress. The
 * functions of the public API that belong to it (scopes, states, ops, host kernels, "here") are
 * in thread.c and take no lock unless a context is new.
 */
#ifndef RECORD_THREAD_H
#define RECORD_THREAD_H

#include <stddef.h>

/*
 * The calling thread becomes the main one: threads without scopes of their own are attributed to
 * its scopes. Called by the start of the first session, before the generation turns odd.
 */
void thread_set_main(void);

/* Open scopes of the calling thread. */
size_t thread_scope_depth(void);
/* Frames of the calling thread's source context; 0 without a provider. */
size_t thread_source_depth(void);

#endif
