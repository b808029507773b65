/* MLIR text utilities: lines, operations and locations, shared by the passes over TTGIR. */
#ifndef INTRA_TTGIR_MLIR_TEXT_H
#define INTRA_TTGIR_MLIR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "intra/slice.h"

/* Removes the next line from `rest` and returns it without its newline; false at the end. */
bool mlir_take_line(struct slice *rest, struct slice *line);
/* True if the trimmed line begins a region: a loop, a branch, a function. */
bool mlir_opens_region(struct slice trimmed);
/* True if it ends a region or a block of one. */
bool mlir_closes_region(struct slice trimmed);
/* True if it begins a region of "ttg.warp_specialize", provided that it follows one. */
bool mlir_begins_partition(struct slice trimmed);
/* True for an empty line, an alias or a comment. */
bool mlir_is_not_code(struct slice trimmed);
/* The leading blanks of a line. */
struct slice mlir_indent(struct slice line);
/* True if the text names an AMD device as its target. */
bool mlir_is_amd(struct slice text);

struct mlir_line {
	struct slice indent;
	struct slice result; /* first SSA name, "%x"; empty if there is no result */
	struct slice op;     /* "tt.load"; empty if the line is not an operation that is handled */
	struct slice rest;   /* after the operation name */
	struct slice location; /* "loc(...)" at the end; empty */
};

void mlir_line_read(struct slice line, struct mlir_line *out);

/*
 * Finds a prefix of SSA names that the text does not use: "%proton_", or with more letters. At most
 * 1000 tries.
 */
#define MLIR_PREFIX_MAX 24
bool mlir_unused_prefix(struct slice text, char prefix[MLIR_PREFIX_MAX]);

/* One marker or `proton.record` as a line, including the newline. */
struct mlir_marker {
	struct slice indent;
	struct slice location;
	const char *prefix; /* with `number`, the SSA name; NULL: `proton.record` */
	uint32_t number;
	bool is_amd;
	bool is_event;
	bool is_end;
	struct slice name;
};

void mlir_marker_write(const struct mlir_marker *marker, struct out *out);

/* ------------------------------------------------------------------ locations */

struct mlir_location {
	struct slice file; /* without directories; empty: unknown */
	uint32_t line;
	uint32_t column;
};

struct mlir_alias {
	struct slice name; /* "#loc3" */
	struct slice body;
};

struct mlir_locations {
	struct mlir_alias *aliases; /* by name */
	size_t count;
};

/* Collects the aliases of `text`, which the result refers to. False if out of memory. */
bool mlir_locations_read(struct slice text, struct mlir_locations *out);
void mlir_locations_fini(struct mlir_locations *locations);

/*
 * The source location of "loc(...)". For an inlined call it is the callee's, or the caller's if the
 * callee is in Triton's own library.
 */
struct mlir_location mlir_locations_resolve(const struct mlir_locations *locations,
					    struct slice location);
/* A hash that is equal for equal locations with equal callers, also in another text; 0: unknown. */
uint64_t mlir_locations_key(const struct mlir_locations *locations, struct slice location);

#endif
