/*
 * Profile file writer: tables that are memory-mapped into the file from the first row on.
 *
 * Each table has its own address range. It grows by extents: pieces of the file, mapped one after
 * another, so rows never move and a table is one array. The blocks of an extent are allocated
 * before it is mapped: a full disk is an error of profile_file_append(), never SIGBUS. Rows become
 * part of the file when profile_file_commit() counts them, in that order, so the file of a killed
 * process is consistent. Not thread-safe.
 */
#pragma once

#include "base/buf.h"
#include "base/region.h"
#include "format/profile_view.h"
#include "format/rows.h"
#include "format/working_file.h"

struct profile_table {
	uint64_t rows; /* appended, not necessarily committed */
	uint32_t row_bytes;
};

struct profile_file {
	struct working_file place; /* without a path for private memory */
	struct region head;        /* the addresses of a header in a file */
	struct file_header *header;
	bool is_alone;     /* no other thread can change descriptors */
	bool is_truncated; /* by another program: rows are missing */
	uint64_t file_bytes;
	/* Rows of each table. Threads read these while another one appends. */
	struct region spaces[TABLE_COUNT];
	_Alignas(CACHE_LINE_BYTES) struct profile_table tables[TABLE_COUNT];
	int errnum;        /* why the last append failed */
	uint64_t retry_ns; /* do not try to grow before this time (monotonic); 0 after a success */
};

/*
 * Creates and locks `path` as in working_file_create(), or with a name of this process
 * (working_file_create_own()), or keeps everything in private memory if it is NULL. E_UNSUPPORTED:
 * the file system does not support shared mappings. Row 0 of strings, frames, nodes, values,
 * kernels, histograms and configs exists afterwards.
 */
int profile_file_create(struct profile_file *file, const char *path, bool is_own,
			struct proton_error *err);

/* Appends `rows` contiguous zeroed rows. NULL if the table cannot grow (file->errnum says why). */
void *profile_file_append(struct profile_file *file, enum table_id table, uint64_t rows);
/* Counts all rows appended to `table` so far as part of the file. */
void profile_file_commit(struct profile_file *file, enum table_id table);

/* True if another program has truncated the file: its data is lost. */
bool profile_file_is_truncated(const struct profile_file *file);
/* Why the last append failed. */
const char *profile_file_why(const struct profile_file *file);

static inline void *profile_file_rows(const struct profile_file *file, enum table_id table)
{
	return file->spaces[table].base;
}

/* Call it when the last row has been written: tables are read ahead again. */
void profile_file_expect_reading(const struct profile_file *file);

/* Borrowed view of the committed rows; valid until the next append. */
void profile_file_view(const struct profile_file *file, struct profile_view *view);

/* A new file is PROFILE_FILE_STARTING until its writer has stored the rows of every profile. */
void profile_file_mark(struct profile_file *file, enum profile_file_state state, uint64_t end_ns);
/* Unmaps and closes; `remove` also deletes the file if it still has its name. Safe twice. */
void profile_file_close(struct profile_file *file, bool remove);
