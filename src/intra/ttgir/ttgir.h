/*
 * Scopes in TTGIR, Triton's GPU dialect of MLIR. This stage still has the operations of the
 * kernel's source (loads, dots, loops, partitions) and their source lines.
 *
 * Markers (marker.h) get into a kernel in two ways besides scope calls. A user adds records to a
 * dumped file:
 *
 *     proton.record start "load"              %e = proton.allocate_event "copy" : i32
 *     proton.record end "load"                proton.event start %e : i32
 *
 * Or automatic scopes are inserted around operations. Where markers do not survive Triton's passes,
 * they are removed before and restored after. Locations and indentation are preserved; text that
 * cannot be parsed stays unchanged.
 */
#pragma once

#include "base/slice.h"
#include "intra/mode.h"

enum ttgir_spelling {
	TTGIR_MARKERS, /* input of the compiler */
	TTGIR_RECORDS, /* `proton.record`, for users to edit */
};

struct ttgir_result {
	char *text; /* malloc'd, terminated; NULL: nothing changed */
	size_t length;
	uint32_t scope_count;  /* scopes inserted */
	uint32_t record_count; /* records of a warp in one pass through them */
	uint32_t cta_stride;   /* every n-th CTA has to record; 1 without a budget */
	char *names;           /* malloc'd: all automatic scopes found, one per line */
	char *note;            /* malloc'd or NULL: which automatic scopes were omitted, and why */
};

/*
 * Translates the operations of the dialect "proton" into markers. `is_amd` applies if the text does
 * not name its target. E_FORMAT, with the line number, for an operation that cannot be parsed.
 */
int ttgir_translate_records(const char *text, size_t length, bool is_amd, struct ttgir_result *out,
			    struct proton_error *err);

struct ttgir_insertion {
	enum ttgir_spelling spelling;
	bool is_amd;
	/* size of a warp's ring buffer in records; 0: not known yet, the maximum for the mode */
	uint32_t records;
	/*
	 * With a budget: percent of the registers predicted for its scopes that must be saved. 100
	 * leaves only scopes of loops and partitions, or if there is none, the scope with the
	 * fewest registers.
	 */
	uint32_t registers_less;
	struct slice without; /* names of scopes that are omitted too, one per line */
	uint32_t loop_levels; /* with a budget: loops deeper than this are omitted; 0: none are */
	struct slice costs;   /* of more scopes, for the note */
	struct slice
		only; /* names of the scopes to keep, one per line; empty: the budget decides */
};

/*
 * Inserts scopes around the operations that mode->autos selects, named OPERATION@FILE:LINE (with
 * :COLUMN or "from FILE:LINE" of a call where needed to distinguish them). If there are too many,
 * those in the innermost loops are omitted. E_UNSUPPORTED for text that is not formatted as MLIR
 * prints it.
 */
int ttgir_insert_scopes(const char *text, size_t length, const struct instrument_mode *mode,
			const struct ttgir_insertion *how, struct ttgir_result *out,
			struct proton_error *err);

/* When markers must be removed from TTIR before Triton's passes. */
enum ttgir_strip_markers {
	TTGIR_FROM_PARTITIONS, /* if a loop will be warp-specialized; no Triton keeps markers */
	TTGIR_FROM_LOOPS, /* if a loop will be pipelined; this Triton cannot predicate markers */
	TTGIR_ALWAYS,
};

/*
 * Removes all markers from TTIR; the text is NULL if they can stay. E_UNSUPPORTED for text that is
 * not formatted as MLIR prints it.
 */
int ttgir_strip_markers(const char *text, size_t length, enum ttgir_strip_markers when,
			struct ttgir_result *out, struct proton_error *err);

/*
 * Restores the scopes: `before` is the TTIR with its markers, `after` the TTGIR compiled from it
 * without markers. Each scope or event is put around what its operations became. Omitted are those
 * whose start and end are in different blocks and those without a remaining operation.
 */
int ttgir_restore_scopes(const char *before, size_t before_length, const char *after,
			 size_t after_length, struct ttgir_result *out, struct proton_error *err);

void ttgir_result_fini(struct ttgir_result *result);
