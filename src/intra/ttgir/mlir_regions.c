/* Splitting MLIR text into lines and matching the ends of regions. */
#include "intra/ttgir/mlir_regions.h"

#include <stdlib.h>

#include "base/array.h"

static int match_regions(struct mlir_regions *lines, struct proton_error *err)
{
	uint32_t open[MLIR_DEPTH_MAX];
	uint32_t depth = 0;

	for (uint32_t i = 0; i < lines->count; i++) {
		struct slice trimmed = lines->at[i].trimmed;

		if (!lines->at[i].is_code)
			continue;
		if (mlir_closes_region(trimmed)) {
			if (!depth)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "line %u: unmatched end of a region", i + 1);
			if (!mlir_opens_region(trimmed))
				lines->at[open[--depth]].end = i;
		} else if (mlir_opens_region(trimmed)) {
			if (depth == MLIR_DEPTH_MAX)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "line %u: regions are nested more than %u deep",
					       i + 1, MLIR_DEPTH_MAX);
			open[depth++] = i;
		}
	}
	if (depth)
		return err_set(err, PROTON_E_UNSUPPORTED, "unterminated region");
	return PROTON_OK;
}

static void read_line(struct slice text, struct mlir_region_line *out)
{
	struct slice trimmed = slice_trim(text);

	*out = (struct mlir_region_line){
		.text = text,
		.trimmed = trimmed,
		.is_code = trimmed.length && *trimmed.at != '#' && *trimmed.at != '/',
		.end = MLIR_NO_LINE,
	};
	if (out->is_code)
		mlir_line_read(text, &out->line);
}

int mlir_regions_read(struct slice text, struct mlir_regions *out, struct proton_error *err)
{
	struct slice line;
	int status = PROTON_OK;

	*out = (struct mlir_regions){0};
	while (status == PROTON_OK && slice_take_line(&text, &line)) {
		if (!array_reserve(&out->at, &out->capacity, out->count + 1, sizeof(*out->at)))
			status = err_nomem(err);
		else
			read_line(line, &out->at[out->count++]);
	}
	if (status == PROTON_OK)
		status = match_regions(out, err);
	if (status != PROTON_OK)
		mlir_regions_fini(out);
	return status;
}

void mlir_regions_fini(struct mlir_regions *lines)
{
	free(lines->at);
	*lines = (struct mlir_regions){0};
}
