/* Lines and regions. See mlir_regions.h. */
#include "intra/ttgir/mlir_regions.h"

#include <stdlib.h>

#include "base/array.h"

static int match_regions(struct ttgir_lines *lines, struct proton_error *err)
{
	uint32_t open[TTGIR_DEPTH_MAX];
	uint32_t depth = 0;

	for (uint32_t i = 0; i < lines->count; i++) {
		struct span trimmed = lines->at[i].trimmed;

		if (text_is_no_code(trimmed))
			continue;
		if (text_closes_region(trimmed)) {
			if (!depth)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "line %u: a region ends that has not begun", i + 1);
			if (!text_opens_region(trimmed))
				lines->at[open[--depth]].end = i;
		} else if (text_opens_region(trimmed)) {
			if (depth == TTGIR_DEPTH_MAX)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "line %u: regions are nested more than %u deep",
					       i + 1, TTGIR_DEPTH_MAX);
			open[depth++] = i;
		}
	}
	if (depth)
		return err_set(err, PROTON_E_UNSUPPORTED, "a region does not end");
	return PROTON_OK;
}

int ttgir_lines_read(struct span text, struct ttgir_lines *out, struct proton_error *err)
{
	struct span line;
	int status = PROTON_OK;

	*out = (struct ttgir_lines){0};
	while (status == PROTON_OK && text_take_line(&text, &line)) {
		if (!array_reserve(&out->at, &out->capacity, out->count + 1, sizeof(*out->at)))
			status = err_set(err, PROTON_E_NOMEM, "out of memory");
		else
			out->at[out->count++] = (struct text_line){line, span_trim(line), NO_LINE};
	}
	if (status == PROTON_OK)
		status = match_regions(out, err);
	if (status != PROTON_OK)
		ttgir_lines_fini(out);
	return status;
}

void ttgir_lines_fini(struct ttgir_lines *lines)
{
	free(lines->at);
	*lines = (struct ttgir_lines){0};
}
