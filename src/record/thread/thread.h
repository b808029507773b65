/* Threads of the program, for other layers: the main one, open scopes, waiting for all of them. */
#ifndef RECORD_THREAD_THREAD_H
#define RECORD_THREAD_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Makes the calling thread the main one: threads without scopes are attributed to its scopes.
 * Called by the start of the first session, before the generation becomes odd.
 */
void thread_set_main(void);
/* The calling thread's number; UINT32_MAX: out of memory. */
uint32_t thread_read_ordinal(void);
/* Sessions that the calling thread starts have the thread of this number as their main one. */
void thread_start_for(uint32_t ordinal);
/*
 * Waits until every thread has left its current section (thread_self.h). False: timeout. The
 * registry is locked.
 */
bool thread_wait_sections(uint64_t timeout_ns);
/* Notes the names of all open scopes as used now. */
void thread_note_open(void);
bool thread_is_in_section(void);

/*
 * The serial of the scope entry that the token means now, on the calling thread; 0: none. A token
 * may recur after its scope has ended, its serial does not.
 */
uint32_t scopes_serial(uint64_t token);
/* Number of frames in the thread's source context (0 without a provider), or of its open scopes. */
size_t thread_context_depth(bool wants_source);

/* In the child of a fork, whose only thread is the calling one. */
void thread_fork_child(void);

#endif
