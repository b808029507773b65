/*
 * Marker removal from TTIR, where markers do not survive Triton's passes. Warp specialization gives
 * each partition a copy of the loop with only its operations. A marker has no operands and no
 * users, so it is dropped, copied into all partitions, or left where no operation of its scope is.
 * The pipeliner may reject a marker. restore_scopes.c puts the markers back.
 */
#include "intra/ttgir/ttgir.h"

#include "intra/ttgir/find_operations.h"
#include "intra/ttgir/provenance.h"

/* Content of a region of TTIR, without the loops inside it. */
struct region {
	bool is_loop;
	bool has_marker;
	bool has_load;
	bool has_dot;
};

struct regions {
	struct region open[MLIR_DEPTH_MAX + 1]; /* the first one is around all regions */
	uint32_t depth;
};

/* Triton pipelines the loads of a loop that has dots, or if the kernel requests it. */
static bool is_pipelined(const struct region *loop, struct slice closing)
{
	return loop->is_loop && loop->has_load &&
	       (loop->has_dot || slice_find(closing, "tt.num_stages"));
}

/* The content of a branch is attributed to the loop around it. */
static void end_region(struct regions *regions)
{
	const struct region *ended = &regions->open[regions->depth--];
	struct region *around = &regions->open[regions->depth];

	if (ended->is_loop)
		return;
	around->has_marker |= ended->has_marker;
	around->has_load |= ended->has_load;
	around->has_dot |= ended->has_dot;
}

/* Reads a line of code. True if a loop ends that has markers and will be pipelined. */
static bool follow_line(struct regions *regions, const struct mlir_region_line *text,
			bool is_marker)
{
	struct region *around = &regions->open[regions->depth];
	bool is_marked_loop = false;

	if (mlir_closes_region(text->trimmed)) {
		if (mlir_opens_region(text->trimmed)) /* "} else {" */
			return false;
		is_marked_loop = around->has_marker && is_pipelined(around, text->trimmed);
		end_region(regions);
	} else if (text->end != MLIR_NO_LINE) {
		regions->open[++regions->depth] = (struct region){
			.is_loop = mlir_is_loop(&text->line),
		};
	} else {
		uint32_t kind = operations_kind(text->line.op);

		around->has_load |= kind == INSTRUMENT_AUTO_LOADS;
		around->has_dot |= kind == INSTRUMENT_AUTO_DOTS;
		around->has_marker |= is_marker;
	}
	return is_marked_loop;
}

/* Writes all lines except markers. True if a loop that will be pipelined has markers. */
static bool write_rest(const struct mlir_regions *lines, struct mlir_writer *writer)
{
	struct regions regions = {0};
	bool has_marked_loop = false;

	for (uint32_t i = 0; i < lines->count; i++) {
		const struct mlir_region_line *text = &lines->at[i];
		struct marker marker;
		bool is_marker = text->is_code && provenance_read_marker(&text->line, &marker);

		if (text->is_code)
			has_marked_loop |= follow_line(&regions, text, is_marker);
		writer->marker_count += is_marker;
		if (!is_marker)
			mlir_write_line(writer, text->text);
	}
	return has_marked_loop;
}

int ttgir_strip_markers(const char *text, size_t length, enum ttgir_strip_markers when,
			struct ttgir_result *result, struct proton_error *err)
{
	struct slice whole = {text, length};
	bool is_wanted = when == TTGIR_ALWAYS || slice_find(whole, "tt.warp_specialize");
	struct mlir_writer writer = {0};
	struct mlir_regions lines;
	int status;

	*result = (struct ttgir_result){0};
	status = mlir_regions_read(whole, &lines, err);
	if (status != PROTON_OK)
		return status;
	out_init(&writer.out, -1);
	if (write_rest(&lines, &writer) && when == TTGIR_FROM_LOOPS)
		is_wanted = true;
	mlir_regions_fini(&lines);
	result->scope_count = writer.marker_count;
	return mlir_writer_finish(&writer, is_wanted && writer.marker_count, &result->text,
				  &result->length, err);
}
