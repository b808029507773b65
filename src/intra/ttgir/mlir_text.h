/* MLIR text utilities: lines, operations and locations, shared by the passes over TTGIR. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "intra/marker.h"

/* True if the trimmed line begins a region: a loop, a branch, a function. */
bool mlir_opens_region(struct slice trimmed);
/* True if it ends a region or a block of one. */
bool mlir_closes_region(struct slice trimmed);
/* True if it begins a region of "ttg.warp_specialize", provided that it follows one. */
bool mlir_begins_partition(struct slice trimmed);
struct mlir_line {
	struct slice indent;
	struct slice result; /* first SSA name, "%x"; empty if there is no result */
	struct slice op;     /* "tt.load"; empty if the line is not an operation that is handled */
	struct slice rest;   /* after the operation name */
	struct slice location; /* "loc(...)" at the end; empty */
};

void mlir_line_read(struct slice line, struct mlir_line *out);
bool mlir_is_loop(const struct mlir_line *line);
/* The number after `key` in the line; 0 if there is none. */
uint32_t mlir_number_after(struct slice line, const char *key);

/* ------------------------------------------------------------------ regions */

/* Maximum nesting of regions. Deeper text is rejected, so walks need only a fixed-size stack. */
#define MLIR_DEPTH_MAX 256u
#define MLIR_NO_LINE UINT32_MAX

struct mlir_region_line {
	struct slice text;    /* without its newline */
	struct slice trimmed; /* without the blanks at both ends */
	struct mlir_line line;
	bool is_code;  /* not empty, an alias or a comment; `line` is set only then */
	uint32_t end;  /* last line of the region that begins here, or MLIR_NO_LINE */
	uint32_t next; /* first line of its last block, "} else {"; `end` if it has one block */
};

struct mlir_regions {
	struct mlir_region_line *at;
	uint32_t count;
	struct mlir_alias {
		struct slice name; /* "#loc3" */
		struct slice body;
	} * aliases; /* of locations, by name */
	size_t alias_count;
};

/*
 * Splits `text`, which the result refers to. "} else {" ends one block and begins another of the
 * same region. E_UNSUPPORTED, with the line number, for unmatched regions; E_NOMEM.
 */
int mlir_regions_read(struct slice text, struct mlir_regions *out, struct proton_error *err);
void mlir_regions_fini(struct mlir_regions *lines);

/* ------------------------------------------------------------------ markers */

/* Writes a text with markers in it. */
#define MLIR_PREFIX_MAX 24
struct mlir_writer {
	struct out out;
	char prefix[MLIR_PREFIX_MAX]; /* of SSA names that the text does not use */
	uint32_t marker_count;
	bool is_amd;
	bool is_record; /* writes `proton.record` without locations, for users to edit */
};

/*
 * Prepares to write a changed `text`; `is_amd` applies if it does not name its target.
 * E_UNSUPPORTED: no unused SSA names found.
 */
int mlir_writer_init(struct mlir_writer *writer, struct slice text, bool is_amd,
		     struct proton_error *err);
void mlir_write_line(struct mlir_writer *writer, struct slice line);
/* Releases the writer. The text is as from out_take(), if `is_changed`. */
int mlir_writer_finish(struct mlir_writer *writer, bool is_changed, char **text_out,
		       size_t *length_out, struct proton_error *err);
/* A marker as a line with the indentation and location. */
void mlir_write_marker(struct mlir_writer *writer, struct slice indent, struct slice location,
		       const struct marker *marker);
/* Parses the line as a marker of a record or an event. */
bool mlir_read_marker(const struct mlir_line *line, struct marker *out);

/* ------------------------------------------------------------------ locations */

struct mlir_location {
	struct slice file; /* without directories; empty: unknown */
	uint32_t line;
	uint32_t column;
};

/* Callers beyond these are left out. */
#define MLIR_FRAMES_MAX 6u

/* The source locations of an operation: its own, then of the calls that inlined it. */
struct mlir_frames {
	struct mlir_location at[MLIR_FRAMES_MAX];
	uint32_t count; /* 0: unknown */
};

/* The frames of "loc(...)" without those in Triton's own library, unless there are no others. */
struct mlir_frames mlir_locations_frames(const struct mlir_regions *lines, struct slice location);
bool mlir_is_same_line(const struct mlir_location *a, const struct mlir_location *b);
/* A hash that is equal for equal locations with equal callers, also in another text; 0: unknown. */
uint64_t mlir_locations_key(const struct mlir_regions *lines, struct slice location);
