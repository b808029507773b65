/* Lines of MLIR, their operations and their locations: what the passes over TTGIR share. */
#ifndef INTRA_TTGIR_MLIR_TEXT_H
#define INTRA_TTGIR_MLIR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "intra/slice.h"

/* Takes the next line off `rest`, without its newline; false at the end. */
bool mlir_take_line(struct slice *rest, struct slice *line);
/* A line, without blanks around it, that begins a region: a loop, a branch, a function. */
bool mlir_opens_region(struct slice trimmed);
/* Ends a region, or a block of one. */
bool mlir_closes_region(struct slice trimmed);
/* Begins a region of "ttg.warp_specialize", if it is behind one. */
bool mlir_begins_partition(struct slice trimmed);
/* An empty line, an alias or a comment. */
bool mlir_is_not_code(struct slice trimmed);
/* The blanks that a line begins with. */
struct slice mlir_indent(struct slice line);
/* Does the text name an AMD device as its target? */
bool mlir_is_amd(struct slice text);

struct mlir_line {
	struct slice indent;
	struct slice result;   /* "%x", of the first; empty when there is none */
	struct slice op;       /* "tt.load"; empty when the line is none that we read */
	struct slice rest;     /* behind the operation's name */
	struct slice location; /* "loc(...)" at the end; empty */
};

void mlir_line_read(struct slice line, struct mlir_line *out);

/* A register that no line of the text names: "%proton_", or with more letters. At most 1000
 * tries. */
#define MLIR_PREFIX_MAX 24
bool mlir_unused_prefix(struct slice text, char prefix[MLIR_PREFIX_MAX]);

/* One marker, or `proton.record`, on a line of its own, newline included. */
struct mlir_marker {
	struct slice indent;
	struct slice location;
	const char *prefix; /* with `number`, the register; NULL: `proton.record` */
	uint32_t number;
	bool is_amd;
	bool is_event;
	bool is_end;
	struct slice name;
};

void mlir_marker_write(const struct mlir_marker *marker, struct out *out);

/* ------------------------------------------------------------------ locations */

struct mlir_location {
	struct slice file; /* without folders; empty: not known */
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

/* Collects the aliases of `text`, which must stay. False when memory is out. */
bool mlir_locations_read(struct slice text, struct mlir_locations *out);
void mlir_locations_fini(struct mlir_locations *locations);

/*
 * The place that "loc(...)" names. Of a call it is the callee's, unless that is part of Triton's
 * own library: then the caller's.
 */
struct mlir_location mlir_locations_resolve(const struct mlir_locations *locations,
					    struct slice location);
/* The same for the same place, called from the same places, also in another text; 0: not known. */
uint64_t mlir_locations_key(const struct mlir_locations *locations, struct slice location);

#endif
