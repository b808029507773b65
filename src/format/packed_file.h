/*
 * Packed profile files, which Proton writes when a profile is complete. A working file has the same
 * tables (profile_file.h); see format/pack.h for their coding.
 */
#ifndef FORMAT_PACKED_FILE_H
#define FORMAT_PACKED_FILE_H

#include "format/profile_view.h"

struct out;

/* Writes a view as a packed, complete profile file. */
int packed_file_write(const struct profile_view *view, struct out *out, struct proton_error *err);

/* profile_view_open() of a packed file. */
int packed_file_open(struct profile_view *view, const void *bytes, size_t length,
		     struct proton_error *err);
/* True if the bytes begin like a packed file. */
bool packed_file_recognize(const void *bytes, size_t length);
/* The rows of a table according to the start of a packed file; 0: it has none. */
uint64_t packed_file_rows(const void *bytes, size_t length, enum table_id id);

#endif
