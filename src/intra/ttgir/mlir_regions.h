/* A text of MLIR line by line, and where the regions end that begin in a line. */
#ifndef INTRA_TTGIR_MLIR_REGIONS_H
#define INTRA_TTGIR_MLIR_REGIONS_H

#include "base/err.h"
#include "intra/ttgir/mlir_text.h"

/* Regions in each other: deeper text is refused, so that walks have room for what is open. */
#define TTGIR_DEPTH_MAX 256u
#define NO_LINE UINT32_MAX

struct text_line {
	struct span text;    /* without its newline */
	struct span trimmed; /* without the blanks at both ends */
	uint32_t end;        /* where the region ends that begins here; NO_LINE: none does */
};

struct ttgir_lines {
	struct text_line *at;
	uint32_t count;
	size_t capacity;
};

/*
 * Reads `text`, which must stay. "} else {" ends one block and begins another of the same region.
 * E_UNSUPPORTED, with the line's number, for regions that do not match; E_NOMEM.
 */
int ttgir_lines_read(struct span text, struct ttgir_lines *out, struct proton_error *err);
void ttgir_lines_fini(struct ttgir_lines *lines);

#endif
