/* Recognizing outputs of a session, in any format: no other file may be replaced. */
#ifndef FORMAT_RECOGNIZE_H
#define FORMAT_RECOGNIZE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * True if a file that begins with these bytes is a profile: a profile file, hatchet (JSON or
 * MessagePack), a Chrome trace or a Perfetto trace. A few KiB are enough; the rest of the file is
 * not checked.
 */
bool recognize_profile(const char *bytes, size_t length);

#endif
