/*
 * Markers are taken out where they cannot go through Triton's passes. Those that specialize warps
 * give each partition a copy of the loop with the operations that belong there; a marker has no
 * operands and no users, so it is dropped, or copied into all of them, or stays where nothing of
 * its scope is left. Those that pipeline loops may refuse it. ttgir_relocate.c puts them back.
 */
#include "instrument/ttgir.h"

#include <stdlib.h>

#include "instrument/ttgir_origin.h"
#include "instrument/ttgir_sites.h"

#define DEPTH_MAX 256u

/* What stands in a region of TTIR, and in no loop inside of it. */
struct region {
	bool is_loop;
	bool has_marker;
	bool has_load;
	bool has_dot;
};

struct regions {
	struct region open[DEPTH_MAX];
	uint32_t depth;
};

/* Triton pipelines the loads of a loop for the dots in it, or because the kernel asks for it. */
static bool is_pipelined(const struct region *loop, struct span closing)
{
	return loop->is_loop && loop->has_load &&
	       (loop->has_dot || span_find(closing, "tt.num_stages"));
}

/* What a branch holds belongs to the loop around it. */
static void end_region(struct regions *regions)
{
	const struct region *ended = &regions->open[--regions->depth];
	struct region *around = &regions->open[regions->depth ? regions->depth - 1 : 0];

	if (!regions->depth || ended->is_loop)
		return;
	around->has_marker |= ended->has_marker;
	around->has_load |= ended->has_load;
	around->has_dot |= ended->has_dot;
}

/* *has_marked_loop: a loop with markers ended that is going to be pipelined. False when regions are
 * nested too deep, or end without a beginning. */
static bool follow_regions(struct regions *regions, const struct ttgir_line *line,
			   struct span trimmed, bool *has_marked_loop)
{
	struct region *around = regions->depth ? &regions->open[regions->depth - 1] : NULL;

	if (text_is_no_code(trimmed))
		return true;
	if (trimmed.at[0] == '}') {
		if (!around)
			return false;
		if (text_opens_region(trimmed)) /* "} else {" */
			return true;
		*has_marked_loop |= around->has_marker && is_pipelined(around, trimmed);
		end_region(regions);
	} else if (text_opens_region(trimmed)) {
		if (regions->depth == DEPTH_MAX)
			return false;
		regions->open[regions->depth++] = (struct region){
			.is_loop = span_is(line->op, "scf.for") || span_is(line->op, "scf.while"),
		};
	} else if (around) {
		uint32_t kind = sites_kind_of(line->op);
		struct marker marker;

		around->has_load |= kind == INSTRUMENT_AUTO_LOADS;
		around->has_dot |= kind == INSTRUMENT_AUTO_DOTS;
		around->has_marker |= origin_read_marker(line, &marker);
	}
	return true;
}

int ttgir_take_out(const char *text, size_t length, enum ttgir_take_out when,
		   struct ttgir_result *result, struct proton_error *err)
{
	struct span rest = {text, length};
	struct regions *regions = calloc(1, sizeof(*regions));
	bool has_marked_loop = false;
	bool is_understood = true;
	bool is_wanted = when == TTGIR_ALWAYS || span_find(rest, "tt.warp_specialize");
	struct out out;
	struct span line;
	int status;

	*result = (struct ttgir_result){0};
	if (!regions)
		return err_set(err, PROTON_E_NOMEM, "out of memory");
	out_init(&out, -1);
	while (is_understood && text_take_line(&rest, &line)) {
		struct ttgir_line read;
		struct marker marker;

		ttgir_line_read(line, &read);
		is_understood = follow_regions(regions, &read, span_trim(line), &has_marked_loop);
		if (origin_read_marker(&read, &marker)) {
			result->scope_count++;
			continue;
		}
		out_bytes(&out, line.at, line.length);
		out_byte(&out, '\n');
	}
	free(regions);
	status = out_finish(&out, err);
	if (status == PROTON_OK && !is_understood)
		status = err_set(err, PROTON_E_UNSUPPORTED, "regions that are not MLIR's");
	is_wanted |= when == TTGIR_FROM_LOOPS && has_marked_loop;
	if (status == PROTON_OK && is_wanted && result->scope_count) {
		result->text = out_take(&out, &result->length);
		if (!result->text)
			status = err_set(err, PROTON_E_NOMEM, "out of memory");
	}
	out_fini(&out);
	return status;
}
