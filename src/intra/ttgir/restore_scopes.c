/*
 * Scope restoration: puts the scopes that strip_markers.c removed back around their operations,
 * after Triton's passes. The location of an operation identifies the operation it was made from.
 *
 * Operations are visited block by block. If an operation was in other scopes than the open ones,
 * scopes are closed or opened before it. An operation without a known location changes nothing: it
 * is inside a scope if it is between two operations of that scope.
 */
#include "intra/ttgir/ttgir.h"

#include <stdlib.h>

#include "base/array.h"
#include "intra/ttgir/find_operations.h"
#include "intra/ttgir/provenance.h"

struct insertion {
	uint32_t line;
	uint32_t sequence;
	bool is_after;
	bool is_end;
	uint32_t site;
	struct slice indent;
	struct slice location;
};

struct relocation {
	const struct provenance *provenance;
	struct mlir_regions lines;
	struct insertion *insertions;
	size_t insertion_capacity;
	uint32_t insertion_count;
	struct proton_error *err;
};

/* Position of the walk in a block. */
struct position {
	struct origin_set around; /* open at the block's start */
	struct origin_set open;   /* started in this block */
	uint32_t last;            /* line of the last operation with known scopes */
	struct slice location;    /* location of that operation */
};

/* ------------------------------------------------------------------ scopes */

static int add_insertion(struct relocation *re, struct insertion made)
{
	made.sequence = re->insertion_count;
	return ARRAY_ADD(re->insertions, re->insertion_capacity, re->insertion_count, made)
		       ? PROTON_OK
		       : err_nomem(re->err);
}

/* Closes the open scopes that are not in `kept`, latest first. */
static int close_scopes(struct relocation *re, struct position *at, const struct origin_set *kept)
{
	int status = PROTON_OK;

	for (uint32_t i = at->open.count; i-- > 0 && status == PROTON_OK;) {
		uint32_t site = at->open.sites[i];

		if (provenance_set_has(kept, site))
			continue;
		status = add_insertion(re, (struct insertion){
						   .line = at->last,
						   .is_after = true,
						   .is_end = true,
						   .site = site,
						   .indent = re->lines.at[at->last].line.indent,
						   .location = at->location,
					   });
		memmove(&at->open.sites[i], &at->open.sites[i + 1],
			(at->open.count - i - 1) * sizeof(at->open.sites[0]));
		at->open.count--;
	}
	return status;
}

static int close_all(struct relocation *re, struct position *at)
{
	static const struct origin_set nothing;

	return close_scopes(re, at, &nothing);
}

/* The operation from line `first` to `last` was in the scopes of `wanted`. */
static int visit_work(struct relocation *re, struct position *at, uint32_t first, uint32_t last,
		      struct slice location, const struct origin_set *wanted)
{
	int status = close_scopes(re, at, wanted);

	for (uint32_t i = 0; i < wanted->count && status == PROTON_OK; i++) {
		uint32_t site = wanted->sites[i];

		if (re->provenance->sites[site].is_broken ||
		    provenance_set_has(&at->around, site) || provenance_set_has(&at->open, site) ||
		    at->open.count == ORIGIN_DEPTH_MAX)
			continue;
		status = add_insertion(re, (struct insertion){
						   .line = first,
						   .site = site,
						   .indent = re->lines.at[first].line.indent,
						   .location = location,
					   });
		at->open.sites[at->open.count++] = site;
	}
	at->last = last;
	at->location = location;
	return status;
}

static const struct origin_set *scopes_of(const struct relocation *re, struct slice location)
{
	return provenance_find(re->provenance, mlir_locations_key(&re->lines, location));
}

/* ------------------------------------------------------------------ walking */

static int visit_block(struct relocation *re, uint32_t *line, const struct position *around);

static bool has_blocks(const struct mlir_region_line *text)
{
	return mlir_begins_partition(text->trimmed) || mlir_is_loop(&text->line) ||
	       slice_is(text->line.op, "scf.if");
}

/* An operation with regions that begins at line `first`. */
static int visit_regions(struct relocation *re, struct position *at, uint32_t first)
{
	const struct mlir_region_line *text = &re->lines.at[first];
	struct slice location = re->lines.at[text->end].line.location;
	const struct origin_set *scopes = NULL;
	int status = PROTON_OK;

	if (!mlir_begins_partition(text->trimmed))
		scopes = scopes_of(re, location);
	if (scopes)
		status = visit_work(re, at, first, text->end, location, scopes);
	if (!has_blocks(text))
		return status;
	if (!scopes)
		status = close_all(re, at); /* operations inside may be in other scopes */
	for (uint32_t i = first; i < text->end && status == PROTON_OK;) {
		i++;
		status = visit_block(re, &i, at);
	}
	return status;
}

static int visit_line(struct relocation *re, struct position *at, uint32_t number)
{
	const struct mlir_region_line *text = &re->lines.at[number];
	const struct origin_set *scopes;

	if (text->trimmed.at[0] == '^')
		return close_all(re, at);
	if (text->end != MLIR_NO_LINE)
		return visit_regions(re, at, number);
	scopes = provenance_is_work(&text->line) ? scopes_of(re, text->line.location) : NULL;
	if (scopes)
		return visit_work(re, at, number, number, text->line.location, scopes);
	if (at->open.count && operations_kind(text->line.op) == INSTRUMENT_AUTO_LOADS)
		at->last = number; /* its part of a copy, after the wait for a buffer */
	return PROTON_OK;
}

/* Visits lines from *line up to the end of the block, which *line then names. */
static int visit_block(struct relocation *re, uint32_t *line, const struct position *around)
{
	struct position at = {.last = MLIR_NO_LINE};
	int status = PROTON_OK;

	if (around) {
		at.around = around->around;
		for (uint32_t i = 0; i < around->open.count; i++)
			if (at.around.count < ORIGIN_DEPTH_MAX)
				at.around.sites[at.around.count++] = around->open.sites[i];
	}
	for (; *line < re->lines.count && status == PROTON_OK; ++*line) {
		const struct mlir_region_line *text = &re->lines.at[*line];

		if (!text->is_code)
			continue;
		if (mlir_closes_region(text->trimmed))
			break;
		status = visit_line(re, &at, *line);
		if (text->end != MLIR_NO_LINE)
			*line = text->end;
	}
	return status == PROTON_OK ? close_all(re, &at) : status;
}

static int visit_functions(struct relocation *re)
{
	int status = PROTON_OK;

	for (uint32_t i = 0; i < re->lines.count && status == PROTON_OK; i++) {
		const struct mlir_region_line *text = &re->lines.at[i];
		uint32_t inner = i + 1;

		if (text->end == MLIR_NO_LINE || !slice_is(text->line.op, "tt.func"))
			continue;
		status = visit_block(re, &inner, NULL);
		i = text->end;
	}
	return status;
}

/* ------------------------------------------------------------------ writing */

static int compare_insertions(const void *a, const void *b)
{
	const struct insertion *left = a;
	const struct insertion *right = b;

	if (left->line != right->line)
		return left->line < right->line ? -1 : 1;
	if (left->is_after != right->is_after)
		return left->is_after ? 1 : -1;
	return left->sequence < right->sequence ? -1 : 1;
}

/* Writes the insertions before or after the line, from *next on. */
static void write_insertions(const struct relocation *re, struct mlir_writer *writer, uint32_t line,
			     bool is_after, uint32_t *next)
{
	for (; *next < re->insertion_count; ++*next) {
		const struct insertion *made = &re->insertions[*next];
		struct marker marker = re->provenance->sites[made->site].marker;

		if (made->line != line || made->is_after != is_after)
			return;
		marker.is_end = made->is_end;
		mlir_write_marker(writer, made->indent, made->location, &marker);
	}
}

static int write_text(struct relocation *re, struct slice text, struct ttgir_result *result)
{
	struct mlir_writer writer;
	uint32_t next = 0;
	int status = mlir_writer_init(&writer, text, false, re->err);

	if (status != PROTON_OK)
		return status;
	ARRAY_SORT(re->insertions, re->insertion_count, compare_insertions);
	for (uint32_t i = 0; i < re->lines.count; i++) {
		write_insertions(re, &writer, i, false, &next);
		mlir_write_line(&writer, re->lines.at[i].text);
		write_insertions(re, &writer, i, true, &next);
	}
	return mlir_writer_finish(&writer, true, &result->text, &result->length, re->err);
}

static int relocate(struct relocation *re, struct slice text, struct ttgir_result *result)
{
	int status = mlir_regions_read(text, &re->lines, re->err);

	if (status == PROTON_OK)
		status = visit_functions(re);
	if (status == PROTON_OK && re->insertion_count)
		status = write_text(re, text, result);
	return status;
}

int ttgir_restore_scopes(const char *before, size_t before_length, const char *after,
			 size_t after_length, struct ttgir_result *result, struct proton_error *err)
{
	struct slice whole = {before, before_length};
	struct relocation re = {.err = err};
	struct provenance provenance;
	int status;

	*result = (struct ttgir_result){0};
	status = provenance_read(whole, &provenance, err);
	if (status != PROTON_OK)
		return status;
	re.provenance = &provenance;
	if (provenance.site_count)
		status = relocate(&re, (struct slice){after, after_length}, result);
	mlir_regions_fini(&re.lines);
	free(re.insertions);
	provenance_fini(&provenance);
	if (status != PROTON_OK)
		ttgir_result_fini(result);
	return status;
}
