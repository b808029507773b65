/* Threads of the program, for other layers: the main one, open scopes, waiting for all of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the calling thread the main one, before the first session's generation is odd. */
void thread_set_main(void);
/* The calling thread's number; UINT32_MAX: out of memory. */
uint32_t thread_read_ordinal(void);
/* Sessions that the calling thread starts have the thread of this number as their main one. */
void thread_start_for(uint32_t ordinal);
/* Waits until each thread has left its section. False: timeout. The registry is locked. */
bool thread_wait_sections(uint64_t timeout_ns);
/* Notes the names of all open scopes as used now. */
void thread_note_open(void);
bool thread_is_in_section(void);

/* The serial of the token's scope entry now; 0: none. Tokens recur, serials do not. */
uint32_t scopes_serial(uint64_t token);
/* Number of frames in the thread's source context (0 without a provider), or of its open scopes. */
size_t thread_context_depth(bool wants_source);

/* In the child of a fork, whose only thread is the calling one. */
void thread_fork_child(void);

/* Holding the program's threads, by proton_holder_set(): Python's stop at the GIL. */

/*
 * Holds all threads that the holder covers until thread_release(), which the same thread calls.
 * False: there is no holder, or it cannot hold now. Takes no lock of the recorder that a covered
 * thread could have while it waits; the caller must have none.
 */
bool thread_hold(void);
void thread_release(void);
/* Waits as a thread that the holder covers does while another thread holds. */
void thread_wait_for_release(void);
/* True if thread_hold() on another thread would hold this one. */
bool thread_is_holdable(void);
bool thread_has_holder(void);

/*
 * A session waits for the scope `name`: `change` is called at the first entry of that name, and at
 * its exit. False: no memory.
 */
bool scopes_await_range(const char *name, void (*change)(bool is_begin));
