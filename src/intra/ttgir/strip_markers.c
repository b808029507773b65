/*
 * Markers are taken out where they cannot go through Triton's passes. Those that specialize warps
 * give each partition a copy of the loop with the operations that belong there; a marker has no
 * operands and no users, so it is dropped, or copied into all of them, or stays where nothing of
 * its scope is left. Those that pipeline loops may refuse it. restore_scopes.c puts them back.
 */
#include "intra/ttgir/ttgir.h"

#include "intra/ttgir/find_operations.h"
#include "intra/ttgir/mlir_regions.h"
#include "intra/ttgir/provenance.h"

/* What stands in a region of TTIR, and in no loop inside of it. */
struct region {
	bool is_loop;
	bool has_marker;
	bool has_load;
	bool has_dot;
};

struct regions {
	struct region open[TTGIR_DEPTH_MAX];
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

/* A line of code; true if a loop with markers ends that is going to be pipelined. */
static bool follow_line(struct regions *regions, const struct text_line *text,
			const struct ttgir_line *line, bool is_marker)
{
	/* Outside of all regions: what the first one takes the place of. */
	struct region *around = &regions->open[regions->depth ? regions->depth - 1 : 0];
	bool is_marked_loop = false;

	if (text_closes_region(text->trimmed)) {
		if (text_opens_region(text->trimmed)) /* "} else {" */
			return false;
		is_marked_loop = around->has_marker && is_pipelined(around, text->trimmed);
		end_region(regions);
	} else if (text->end != NO_LINE) {
		regions->open[regions->depth++] = (struct region){
			.is_loop = span_is(line->op, "scf.for") || span_is(line->op, "scf.while"),
		};
	} else {
		uint32_t kind = sites_kind_of(line->op);

		around->has_load |= kind == INSTRUMENT_AUTO_LOADS;
		around->has_dot |= kind == INSTRUMENT_AUTO_DOTS;
		around->has_marker |= is_marker;
	}
	return is_marked_loop;
}

/* Writes the lines that are no markers. True if there are markers in a loop to be pipelined. */
static bool write_rest(const struct ttgir_lines *lines, struct regions *regions, struct out *out,
		       uint32_t *marker_count)
{
	bool has_marked_loop = false;

	for (uint32_t i = 0; i < lines->count; i++) {
		const struct text_line *text = &lines->at[i];
		bool is_marker = false;

		if (!text_is_no_code(text->trimmed)) {
			struct ttgir_line line;
			struct marker marker;

			ttgir_line_read(text->text, &line);
			is_marker = origin_read_marker(&line, &marker);
			has_marked_loop |= follow_line(regions, text, &line, is_marker);
		}
		*marker_count += is_marker;
		if (is_marker)
			continue;
		out_bytes(out, text->text.at, text->text.length);
		out_byte(out, '\n');
	}
	return has_marked_loop;
}

int ttgir_take_out(const char *text, size_t length, enum ttgir_take_out when,
		   struct ttgir_result *result, struct proton_error *err)
{
	struct span whole = {text, length};
	struct regions regions = {0};
	struct ttgir_lines lines;
	struct out out;
	bool is_wanted = when == TTGIR_ALWAYS || span_find(whole, "tt.warp_specialize");
	int status;

	*result = (struct ttgir_result){0};
	status = ttgir_lines_read(whole, &lines, err);
	if (status != PROTON_OK)
		return status;
	out_init(&out, -1);
	if (write_rest(&lines, &regions, &out, &result->scope_count) && when == TTGIR_FROM_LOOPS)
		is_wanted = true;
	ttgir_lines_fini(&lines);
	status = out_finish(&out, err);
	if (status == PROTON_OK && is_wanted && result->scope_count) {
		result->text = out_take(&out, &result->length);
		if (!result->text)
			status = err_set(err, PROTON_E_NOMEM, "out of memory");
	}
	out_fini(&out);
	return status;
}
