/*
 * The tables of a profile file as plain arrays: taken from the bytes of a file (finished,
 * unfinished or damaged), or borrowed from a live session. Nothing inside a row is checked here
 * except that a string entry lies within its table; model/load_profile.c checks the rest.
 */
#ifndef FORMAT_PROFILE_VIEW_H
#define FORMAT_PROFILE_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "format/rows.h"

struct profile_view {
	const void *table[TABLE_COUNT];
	uint64_t rows[TABLE_COUNT];
	uint32_t state;
	uint32_t pid;
	uint64_t start_ns;
	uint64_t end_ns;
	bool is_damaged; /* something was missing or impossible; what is here can be read */
	void *owned[TABLE_COUNT]; /* copies made because a table has several extents */
};

/* Bytes of one row of each table, in files of this version. */
extern const uint32_t profile_row_bytes[TABLE_COUNT];

/* True if `bytes` begins like a profile file. */
bool profile_view_recognize(const void *bytes, size_t length);

/*
 * Views the file in `bytes`, which must stay until profile_view_fini(). E_FORMAT: no profile file,
 * or of another major version. Truncated and inconsistent files are cut to what is there and
 * marked is_damaged.
 */
int profile_view_open(struct profile_view *view, const void *bytes, size_t length,
		      struct proton_error *err);
void profile_view_fini(struct profile_view *view);

/* The text of string `id` and its length; "" for an id that is not in the table. */
const char *profile_view_string(const struct profile_view *view, uint32_t id, uint32_t *length_out);

#endif
