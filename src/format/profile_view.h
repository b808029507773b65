/*
 * Profile file reader: the tables as plain arrays, taken from the bytes of a file (complete,
 * incomplete or corrupt) or borrowed from a live session. Rows are not checked here, except that a
 * string entry is within its table; model/load_profile.c checks the rest.
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
	bool is_damaged;          /* something was missing or invalid; the rest can be read */
	void *owned[TABLE_COUNT]; /* copies of tables with several extents */
	uint64_t cost;            /* of the rows of a file, against load_budget() */
};

/* Bytes of one row of each table, in files of this version. */
extern const uint32_t profile_row_bytes[TABLE_COUNT];

/* True if `bytes` starts like a profile file. */
bool profile_view_recognize(const void *bytes, size_t length);

/*
 * Views the file in `bytes`, which must stay valid until profile_view_fini(). E_FORMAT: not a
 * profile file, another major version, or more rows than load_budget() allows.
 * Truncated and inconsistent files are cut to the valid
 * part and get is_damaged.
 */
int profile_view_open(struct profile_view *view, const void *bytes, size_t length,
		      struct proton_error *err);
void profile_view_fini(struct profile_view *view);

/* The text of string `id` and its length; "" for an id that is not in the table. */
const char *profile_view_string(const struct profile_view *view, uint32_t id, uint32_t *length_out);

#endif
