/*
 * Scopes in TTGIR, the text of the compiler stage that still knows what the kernel's author wrote:
 * loads, dots, loops, partitions, and the line of the source of each.
 *
 * Two ways lead to the same markers (see marker.h). A person has put records into a dumped file:
 *
 *     proton.record start "load"              %e = proton.allocate_event "copy" : i32
 *     proton.record end "load"                proton.event start %e : i32
 *
 * or nobody has touched the kernel, and scopes are put around its operations. And where markers
 * cannot go through the compiler, they are taken out and put back behind it. Locations and
 * indentation are kept; text that is not understood is left alone.
 */
#ifndef INTRA_TTGIR_TTGIR_H
#define INTRA_TTGIR_TTGIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intra/mode.h"

enum ttgir_spelling {
	TTGIR_MARKERS, /* for the compiler */
	TTGIR_RECORDS, /* `proton.record`, for a person to edit */
};

struct ttgir_result {
	char *text; /* malloc'd, terminated; NULL: nothing changed */
	size_t length;
	uint32_t scope_count; /* put in, by name */
	char *note;           /* malloc'd or NULL: which automatic scopes were left out, and why */
};

/*
 * Turns the operations of the dialect "proton" into markers. `is_amd` decides where the text does
 * not name its target. E_FORMAT, with the line's number, for one that is not understood.
 */
int ttgir_translate_records(const char *text, size_t length, bool is_amd, struct ttgir_result *out,
			    struct proton_error *err);

/*
 * Puts scopes around what mode->autos names, called OPERATION@FILE:LINE (and :COLUMN where that
 * is not enough). When there are more than fit, those in the innermost loops are left out.
 * E_UNSUPPORTED for text that is not as MLIR prints it.
 */
int ttgir_insert_scopes(const char *text, size_t length, const struct instrument_mode *mode,
			bool is_amd, enum ttgir_spelling spelling, struct ttgir_result *out,
			struct proton_error *err);

/* When markers cannot stay in TTIR that Triton's passes are given. */
enum ttgir_strip_markers {
	TTGIR_FROM_PARTITIONS, /* a loop is to be specialized: no version of Triton keeps them */
	TTGIR_FROM_LOOPS,      /* or one to be pipelined, and this version cannot predicate them */
	TTGIR_ALWAYS,
};

/*
 * Takes the markers out of TTIR, all of them if any; the text is NULL where they can stay.
 * E_UNSUPPORTED for text that is not as MLIR prints it.
 */
int ttgir_strip_markers(const char *text, size_t length, enum ttgir_strip_markers when,
			struct ttgir_result *out, struct proton_error *err);

/*
 * Puts them back: `before` is the TTIR with its markers, `after` the TTGIR that has been made of it
 * without. Each scope, or event, is put around what has become of its operations. Left out are
 * those whose start and end are not in one block, and those of which no operation is left.
 */
int ttgir_restore_scopes(const char *before, size_t before_length, const char *after,
			 size_t after_length, struct ttgir_result *out, struct proton_error *err);

void ttgir_result_fini(struct ttgir_result *result);

#endif
