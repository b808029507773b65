/* Lines of MLIR, their operations and their locations: what the passes over TTGIR share. */
#ifndef INTRA_TTGIR_MLIR_TEXT_H
#define INTRA_TTGIR_MLIR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct span {
	const char *at;
	size_t length;
};

bool span_is(struct span span, const char *text);
bool span_equal(struct span a, struct span b);
/* Without the blanks at both ends. */
struct span span_trim(struct span span);
/* Takes `text` off the beginning, if it is there. */
bool span_take(struct span *span, const char *text);
/* Where `text` occurs last; NULL. */
const char *span_find_last(struct span span, const char *text);
/* Where `text` occurs first; NULL. */
const char *span_find(struct span span, const char *text);

/* Takes the next line off `rest`, without its newline; false at the end. */
bool text_take_line(struct span *rest, struct span *line);
/* A line, without blanks around it, that begins a region: a loop, a branch, a function. */
bool text_opens_region(struct span trimmed);
/* Ends a region, or a block of one. */
bool text_closes_region(struct span trimmed);
/* Begins a region of "ttg.warp_specialize", if it is behind one. */
bool text_begins_partition(struct span trimmed);
/* An empty line, an alias or a comment. */
bool text_is_no_code(struct span trimmed);
/* The blanks that a line begins with. */
struct span text_indent(struct span line);
/* Does the text name an AMD device as its target? */
bool text_is_amd(struct span text);

struct ttgir_line {
	struct span indent;
	struct span result;   /* "%x", of the first; empty when there is none */
	struct span op;       /* "tt.load"; empty when the line is none that we read */
	struct span rest;     /* behind the operation's name */
	struct span location; /* "loc(...)" at the end; empty */
};

void ttgir_line_read(struct span line, struct ttgir_line *out);

/* A register that no line of the text names: "%proton_", or with more letters. At most 1000
 * tries. */
#define TTGIR_PREFIX_MAX 24
bool ttgir_prefix(struct span text, char prefix[TTGIR_PREFIX_MAX]);

/* One marker, or `proton.record`, on a line of its own, newline included. */
struct ttgir_marker {
	struct span indent;
	struct span location;
	const char *prefix; /* with `number`, the register; NULL: `proton.record` */
	uint32_t number;
	bool is_amd;
	bool is_event;
	bool is_end;
	struct span name;
};

void ttgir_marker_write(const struct ttgir_marker *marker, struct out *out);

/* ------------------------------------------------------------------ locations */

struct ttgir_place {
	struct span file; /* without folders; empty: not known */
	uint32_t line;
	uint32_t column;
};

struct ttgir_alias {
	struct span name; /* "#loc3" */
	struct span body;
};

struct ttgir_locations {
	struct ttgir_alias *aliases; /* by name */
	size_t count;
};

/* Collects the aliases of `text`, which must stay. False when memory is out. */
bool ttgir_locations_read(struct span text, struct ttgir_locations *out);
void ttgir_locations_fini(struct ttgir_locations *locations);

/*
 * The place that "loc(...)" names. Of a call it is the callee's, unless that is part of Triton's
 * own library: then the caller's.
 */
struct ttgir_place ttgir_place_of(const struct ttgir_locations *locations, struct span location);
/* The same for the same place, called from the same places, also in another text; 0: not known. */
uint64_t ttgir_location_key(const struct ttgir_locations *locations, struct span location);

#endif
