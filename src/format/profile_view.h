/*
 * Profile file reader: the tables as plain arrays, taken from the bytes of a file (complete,
 * incomplete or corrupt) or borrowed from a live session. Rows are not checked here, except that a
 * string entry is within its table; model/load_profile.c checks the rest.
 */
#pragma once

#include "base/buf.h"
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

/* True if `bytes` starts like a profile file, and like a packed one. */
bool profile_view_recognize(const void *bytes, size_t length);
bool profile_view_is_packed(const void *bytes, size_t length);
/* The rows of a table, by the first `length` bytes of either form of a file; 0: it has none. */
uint64_t profile_view_rows(const struct file_header *header, size_t length, enum table_id id);

/*
 * Views the file in `bytes`, which must stay valid until profile_view_fini(). E_FORMAT: not a
 * profile file, another major version, or more rows than load_budget() allows.
 * Truncated and inconsistent files are cut to the valid part and get is_damaged.
 */
int profile_view_open(struct profile_view *view, const void *bytes, size_t length,
		      struct proton_error *err);
void profile_view_fini(struct profile_view *view);

/* The text of string `id` and its length; "" for an id that is not in the table. */
const char *profile_view_string(const struct profile_view *view, uint32_t id, uint32_t *length_out);

/* Writes a view as a packed, complete profile file; see format/pack.h for the coding. */
int profile_view_write(const struct profile_view *view, struct out *out, struct proton_error *err);

/*
 * Writes it without what identifies users and machines or is not theirs to give away: source text,
 * machine code, hosts, jobs, command lines, UUIDs, directories. Only strings that the rest refers
 * to are in it, and only information that is known to be harmless.
 */
int profile_strip(const struct profile_view *view, struct out *out, struct proton_error *err);

/*
 * The memory that a profile may take: in proportion to the size of its file, and a constant. Few
 * bytes can stand for any number of rows in packed and nested files. Profiles of programs need a
 * third of this; files that need more are refused.
 */
#define LOAD_BYTES_PER_BYTE 60u
#define LOAD_BYTES_MORE (40ull << 20)

static inline uint64_t load_budget(size_t length)
{
	return (uint64_t)length * LOAD_BYTES_PER_BYTE + LOAD_BYTES_MORE;
}

/* Memory for a row while its table is loaded: the row, its copy, mostly maps and hash tables. */
static inline uint64_t load_row_cost(uint32_t table, uint32_t row_bytes)
{
	bool is_plain = table == TABLE_CELLS || table == TABLE_RANKS;

	return is_plain ? (uint64_t)row_bytes * 2 : (uint64_t)row_bytes * 3 + 16;
}

static inline int load_refuse(size_t length, struct proton_error *err)
{
	return err_set(err, PROTON_E_FORMAT,
		       "its %zu bytes would take more than %llu MB of memory, the limit for "
		       "its size",
		       length, (unsigned long long)(load_budget(length) >> 20));
}
