/* The line that says what a session recorded, for the end of a run. */
#ifndef RECORD_SESSION_SUMMARY_H
#define RECORD_SESSION_SUMMARY_H

#include "record/session/session.h"

/*
 * Remembers the line for proton_last_summary(). `hint` is how to look at it, NULL if nothing was
 * written. Called before the store is closed.
 */
void summary_make(const struct session *session, const char *hint);

/*
 * The line, once: false if proton_last_summary() has returned it, if there is none, or if its
 * session is quiet. The end of the program and a signal can come together, and one of them prints.
 */
bool summary_take(char *text, size_t capacity);

#endif
