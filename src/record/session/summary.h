/* Session summary: the line about recorded and lost data at the end of a run. */
#ifndef RECORD_SESSION_SUMMARY_H
#define RECORD_SESSION_SUMMARY_H

#include "record/sets/session.h"

/*
 * Stores the line for proton_last_summary(). `hint` tells how to view the output, NULL if nothing
 * was written. Call it before the store is closed.
 */
void summary_make(const struct session *session, const char *hint);
/* A signal that ends the program has arrived, or has not ended it. Safe in a signal handler. */
void summary_note_signal(bool has_arrived);

/*
 * Returns the line, once. False if proton_last_summary() has returned it, if there is none, or if
 * its session is quiet. The program's end and a signal can come together; only one of them prints.
 * Without `is_early_wanted` also false if the session had ended before a signal arrived.
 */
bool summary_take(bool is_early_wanted, char *text, size_t capacity);
/* True if proton_last_summary() has returned the line; the program may not have printed it yet. */
bool summary_was_taken(void);

#endif
