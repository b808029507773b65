/*
 * Progress line: what the program is doing, if it takes longer than a second. It is one line on
 * standard error that is replaced every second and removed at the end. Only on a terminal.
 */
#pragma once

#include <stddef.h>

/* For example "reading" and a name from the command line. Ends the previous line. */
void progress_begin(const char *verb, const char *name);
/* How much of it is done, shown before the seconds. */
void progress_count(size_t done);
void progress_end(void);
/* For programs that are not a command: no line, and their timer is left alone. */
void progress_disable(void);
