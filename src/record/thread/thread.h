/* Threads of the program: the main one, and waiting for all of them. */
#ifndef RECORD_THREAD_THREAD_H
#define RECORD_THREAD_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes the calling thread the main one: threads without scopes are attributed to its scopes.
 * Called by the start of the first session, before the generation becomes odd.
 */
void thread_set_main(void);
/*
 * Waits until every thread has left its current section (thread_self.h). False: timeout. The
 * registry is locked.
 */
bool thread_wait_sections(uint64_t timeout_ns);
/* Notes the names of all open scopes as used now. */
void thread_note_open(void);
bool thread_is_in_section(void);
/* In the child of a fork, whose only thread is the calling one. */
void thread_fork_child(void);

#endif
