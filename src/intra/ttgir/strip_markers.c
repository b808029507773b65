/*
 * Marker removal from TTIR, where markers do not survive Triton's passes. Warp specialization gives
 * each partition a copy of the loop with only its operations. A marker has no operands and no
 * users, so it is dropped, copied into all partitions, or left where no operation of its scope is.
 * The pipeliner may reject a marker. restore_scopes.c puts the markers back.
 */
#include "intra/ttgir/ttgir.h"

#include "intra/ttgir/find_operations.h"
#include "intra/ttgir/provenance.h"

/*
 * True if the loop that begins at line `first` has a marker and will be pipelined, without the loops
 * inside it: Triton pipelines the loads of a loop that has dots, or if the kernel requests it.
 */
static bool is_marked_loop(const struct mlir_regions *lines, uint32_t first)
{
	uint32_t end = lines->at[first].end;
	bool has_marker = false;
	bool has_load = false;
	bool has_dot = slice_find(lines->at[end].trimmed, "tt.num_stages");
	struct marker marker;

	for (uint32_t i = first + 1; i < end; i++) {
		const struct mlir_region_line *text = &lines->at[i];
		uint32_t kind;

		if (!text->is_code || text->end != MLIR_NO_LINE) {
			i = text->is_code && mlir_is_loop(&text->line) ? text->end : i;
			continue;
		}
		kind = operations_kind(text->line.op);
		has_load |= kind == INSTRUMENT_AUTO_LOADS;
		has_dot |= kind == INSTRUMENT_AUTO_DOTS;
		has_marker |= provenance_read_marker(&text->line, &marker);
	}
	return has_marker && has_load && has_dot;
}

int ttgir_strip_markers(const char *text, size_t length, enum ttgir_strip_markers when,
			struct ttgir_result *result, struct proton_error *err)
{
	struct slice whole = {text, length};
	bool is_wanted = when == TTGIR_ALWAYS || slice_find(whole, "tt.warp_specialize");
	struct mlir_writer writer = {0};
	struct mlir_regions lines;
	struct marker marker;
	int status;

	*result = (struct ttgir_result){0};
	status = mlir_regions_read(whole, &lines, err);
	if (status != PROTON_OK)
		return status;
	out_init(&writer.out, -1);
	for (uint32_t i = 0; i < lines.count; i++) {
		const struct mlir_region_line *line = &lines.at[i];

		if (!line->is_code || !provenance_read_marker(&line->line, &marker))
			mlir_write_line(&writer, line->text);
		else
			result->scope_count++;
		if (when == TTGIR_FROM_LOOPS && !is_wanted && line->is_code &&
		    line->end != MLIR_NO_LINE && mlir_is_loop(&line->line))
			is_wanted = is_marked_loop(&lines, i);
	}
	mlir_regions_fini(&lines);
	return mlir_writer_finish(&writer, is_wanted && result->scope_count, &result->text,
				  &result->length, err);
}
