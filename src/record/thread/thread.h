/*
 * Per-thread state: scope stack, states, the launch in progress. The related functions of the
 * public API are in thread.c (scopes, states, "here") and record_launch.c (ops, host kernels), and
 * take no lock unless a context is new.
 */
#ifndef RECORD_THREAD_THREAD_H
#define RECORD_THREAD_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libproton/proton.h>

#include "record/thread/thread_trace.h"

/*
 * Makes the calling thread the main one: threads without scopes are attributed to its scopes.
 * Called by the start of the first session, before the generation becomes odd.
 */
void thread_set_main(void);

/*
 * The serial of the scope entry that the token means now, on the calling thread; 0: none. A token
 * may recur after its scope has ended, its serial does not.
 */
uint32_t thread_scope_serial(uint64_t token);
/* The frame of a name that the calling thread is about to enter: see frames_add_below(). */
uint32_t thread_frame(const char *name, size_t length);
/*
 * Waits until every thread has left its current section (thread_self.h). False: timeout. The
 * registry is locked.
 */
bool threads_wait_sections(uint64_t timeout_ns);
/* Notes the names of all open scopes as used now. */
void threads_note_open(void);
bool thread_is_in_section(void);
/* Number of open scopes of the calling thread. */
size_t thread_scope_depth(void);
/* The calling thread's innermost event for metrics at `where`; NULL if there is none. */
const struct trace_event *thread_open_event(struct proton_context where);
/* Number of frames in the calling thread's source context; 0 without a provider. */
size_t thread_source_depth(void);
/* In the child of a fork, whose only thread is the calling one. */
void thread_fork_child(void);

#endif
