/* Earlier outputs, which a session that recorded nothing must not replace. */
#ifndef RECORD_SESSION_EARLIER_OUTPUT_H
#define RECORD_SESSION_EARLIER_OUTPUT_H

#include <stdbool.h>

/* Remembers that this process has written the output `path`. */
void earlier_output_note_written(const char *path);
/*
 * True if profile `path` is from another run that recorded something, as far as is known. Within a
 * process, a later session of a name always replaces the earlier one.
 */
bool earlier_output_is_kept(const char *path);

#endif
