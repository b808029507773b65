/* Session summary: the line about recorded and lost data at the end of a run. */
#ifndef RECORD_SESSION_SUMMARY_H
#define RECORD_SESSION_SUMMARY_H

#include "record/sets/session.h"

/*
 * Stores the line for proton_last_summary(). `hint` tells how to view the output, NULL if nothing
 * was written. Call it before the store is closed.
 */
void summary_make(const struct session *session, const char *hint);

/*
 * Returns the line, once. False if proton_last_summary() has returned it, if there is none, or if
 * its session is quiet. The program's end and a signal can come together; only one of them prints.
 */
bool summary_take(char *text, size_t capacity);
/* True if the last session ended after the signal that ends the program had arrived. */
bool summary_is_late(void);
/* True if proton_last_summary() has returned the line; the program may not have printed it yet. */
bool summary_was_taken(void);

#endif
