/* A text of MLIR line by line, and where the regions end that begin in a line. */
#ifndef INTRA_TTGIR_MLIR_REGIONS_H
#define INTRA_TTGIR_MLIR_REGIONS_H

#include "base/err.h"
#include "intra/ttgir/mlir_text.h"

/* Regions in each other: deeper text is refused, so that walks have room for what is open. */
#define MLIR_DEPTH_MAX 256u
#define MLIR_NO_LINE UINT32_MAX

struct mlir_region_line {
	struct slice text;    /* without its newline */
	struct slice trimmed; /* without the blanks at both ends */
	uint32_t end;         /* where the region ends that begins here; MLIR_NO_LINE: none does */
};

struct mlir_regions {
	struct mlir_region_line *at;
	uint32_t count;
	size_t capacity;
};

/*
 * Reads `text`, which must stay. "} else {" ends one block and begins another of the same region.
 * E_UNSUPPORTED, with the line's number, for regions that do not match; E_NOMEM.
 */
int mlir_regions_read(struct slice text, struct mlir_regions *out, struct proton_error *err);
void mlir_regions_fini(struct mlir_regions *lines);

#endif
