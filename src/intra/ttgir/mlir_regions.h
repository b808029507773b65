/* MLIR lines and regions: the text line by line, with the line where each region ends. */
#ifndef INTRA_TTGIR_MLIR_REGIONS_H
#define INTRA_TTGIR_MLIR_REGIONS_H

#include "base/err.h"
#include "intra/ttgir/mlir_text.h"

/* Maximum nesting of regions. Deeper text is rejected, so walks need only a fixed-size stack. */
#define MLIR_DEPTH_MAX 256u
#define MLIR_NO_LINE UINT32_MAX

struct mlir_region_line {
	struct slice text;    /* without its newline */
	struct slice trimmed; /* without the blanks at both ends */
	struct mlir_line line;
	bool is_code; /* not empty, an alias or a comment; `line` is set only then */
	uint32_t end; /* last line of the region that begins here, or MLIR_NO_LINE */
};

struct mlir_regions {
	struct mlir_region_line *at;
	uint32_t count;
	size_t capacity;
};

/*
 * Splits `text`, which the result refers to. "} else {" ends one block and begins another of the
 * same region. E_UNSUPPORTED, with the line number, for unmatched regions; E_NOMEM.
 */
int mlir_regions_read(struct slice text, struct mlir_regions *out, struct proton_error *err);
void mlir_regions_fini(struct mlir_regions *lines);

#endif
