/* Earlier outputs: what a session that recorded nothing must not replace. */
#ifndef RECORD_SESSION_EARLIER_OUTPUT_H
#define RECORD_SESSION_EARLIER_OUTPUT_H

#include <stdbool.h>

/* This process has written the output `path`. */
void earlier_note_written(const char *path);
/*
 * True if the profile `path` is of another run, and something was recorded in that run as far as is
 * known. In one process a later session of a name replaces the earlier one in any case.
 */
bool earlier_is_kept(const char *path);

#endif
