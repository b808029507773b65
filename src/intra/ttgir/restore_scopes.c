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
#include "intra/ttgir/mlir_regions.h"
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
	struct mlir_locations locations;
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
	if (!array_reserve(&re->insertions, &re->insertion_capacity, re->insertion_count + 1,
			   sizeof(*re->insertions)))
		return err_nomem(re->err);
	made.sequence = re->insertion_count;
	re->insertions[re->insertion_count++] = made;
	return PROTON_OK;
}

/* Closes the open scopes that are not in `kept`, latest first. */
static int close_scopes(struct relocation *re, struct position *at, const struct origin_set *kept)
{
	int status = PROTON_OK;

	for (uint32_t i = at->open.count; i-- > 0 && status == PROTON_OK;) {
		uint32_t site = at->open.sites[i];

		if (origin_set_has(kept, site))
			continue;
		status = add_insertion(re,
				       (struct insertion){
					       .line = at->last,
					       .is_after = true,
					       .is_end = true,
					       .site = site,
					       .indent = mlir_indent(re->lines.at[at->last].text),
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

		if (re->provenance->sites[site].is_broken || origin_set_has(&at->around, site) ||
		    origin_set_has(&at->open, site) || at->open.count == ORIGIN_DEPTH_MAX)
			continue;
		status = add_insertion(re, (struct insertion){
						   .line = first,
						   .site = site,
						   .indent = mlir_indent(re->lines.at[first].text),
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
	return provenance_find(re->provenance, mlir_locations_key(&re->locations, location));
}

/* ------------------------------------------------------------------ walking */

static int visit_block(struct relocation *re, uint32_t *line, const struct position *around);

static bool has_blocks(const struct mlir_line *line, struct slice trimmed)
{
	return mlir_begins_partition(trimmed) || slice_is(line->op, "scf.for") ||
	       slice_is(line->op, "scf.if") || slice_is(line->op, "scf.while");
}

/* An operation with regions that begins at line `first`. */
static int visit_regions(struct relocation *re, struct position *at, uint32_t first,
			 const struct mlir_line *line, struct slice trimmed)
{
	uint32_t end = re->lines.at[first].end;
	const struct origin_set *scopes = NULL;
	struct mlir_line closing;
	int status = PROTON_OK;

	mlir_line_read(re->lines.at[end].text, &closing);
	if (!mlir_begins_partition(trimmed))
		scopes = scopes_of(re, closing.location);
	if (scopes)
		status = visit_work(re, at, first, end, closing.location, scopes);
	if (!has_blocks(line, trimmed))
		return status;
	if (!scopes)
		status = close_all(re, at); /* operations inside may be in other scopes */
	for (uint32_t i = first; i < end && status == PROTON_OK;) {
		i++;
		status = visit_block(re, &i, at);
	}
	return status;
}

static int visit_line(struct relocation *re, struct position *at, uint32_t number)
{
	struct slice trimmed = re->lines.at[number].trimmed;
	const struct origin_set *scopes;
	struct mlir_line line;

	if (trimmed.at[0] == '^')
		return close_all(re, at);
	mlir_line_read(re->lines.at[number].text, &line);
	if (re->lines.at[number].end != MLIR_NO_LINE)
		return visit_regions(re, at, number, &line, trimmed);
	scopes = origin_is_work(&line) ? scopes_of(re, line.location) : NULL;
	if (scopes)
		return visit_work(re, at, number, number, line.location, scopes);
	if (at->open.count && sites_kind_of_op(line.op) == INSTRUMENT_AUTO_LOADS)
		at->last = number; /* its part of a copy, after the wait for a buffer */
	return PROTON_OK;
}

/* Visits lines from *line up to the one that ends the block, which *line then names. */
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
		struct slice trimmed = re->lines.at[*line].trimmed;

		if (mlir_is_not_code(trimmed))
			continue;
		if (mlir_closes_region(trimmed))
			break;
		status = visit_line(re, &at, *line);
		if (re->lines.at[*line].end != MLIR_NO_LINE)
			*line = re->lines.at[*line].end;
	}
	return status == PROTON_OK ? close_all(re, &at) : status;
}

static int visit_functions(struct relocation *re)
{
	int status = PROTON_OK;

	for (uint32_t i = 0; i < re->lines.count && status == PROTON_OK; i++) {
		uint32_t end = re->lines.at[i].end;
		uint32_t inner = i + 1;
		struct mlir_line line;

		mlir_line_read(re->lines.at[i].text, &line);
		if (end == MLIR_NO_LINE || !slice_is(line.op, "tt.func"))
			continue;
		status = visit_block(re, &inner, NULL);
		i = end;
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

struct writing {
	struct out out;
	char prefix[MLIR_PREFIX_MAX];
	uint32_t marker_count;
	bool is_amd;
};

/* Writes the insertions before or after the line, from *next on. */
static void write_insertions(const struct relocation *re, struct writing *writing, uint32_t line,
			     bool is_after, uint32_t *next)
{
	for (; *next < re->insertion_count; ++*next) {
		const struct insertion *made = &re->insertions[*next];
		const struct marker *start = &re->provenance->sites[made->site].marker;
		struct mlir_marker marker = {
			.indent = made->indent,
			.location = made->location,
			.prefix = writing->prefix,
			.number = writing->marker_count,
			.is_amd = writing->is_amd,
			.is_event = start->is_event,
			.is_end = made->is_end,
			.name = {start->name, start->name_length},
		};

		if (made->line != line || made->is_after != is_after)
			return;
		writing->marker_count++;
		mlir_marker_write(&marker, &writing->out);
	}
}

static int write_text(struct relocation *re, struct slice text, struct ttgir_result *result)
{
	struct writing writing = {.is_amd = mlir_is_amd(text)};
	uint32_t next = 0;
	int status;

	if (!mlir_unused_prefix(text, writing.prefix))
		return err_set(re->err, PROTON_E_UNSUPPORTED,
			       "all SSA names of the form %%proton_... are in use");
	qsort(re->insertions, re->insertion_count, sizeof(*re->insertions), compare_insertions);
	out_init(&writing.out, -1);
	for (uint32_t i = 0; i < re->lines.count; i++) {
		struct slice line = re->lines.at[i].text;

		write_insertions(re, &writing, i, false, &next);
		out_bytes(&writing.out, line.at, line.length);
		out_byte(&writing.out, '\n');
		write_insertions(re, &writing, i, true, &next);
	}
	status = out_finish(&writing.out, re->err);
	if (status == PROTON_OK) {
		result->text = out_take(&writing.out, &result->length);
		if (!result->text)
			status = err_nomem(re->err);
	}
	out_fini(&writing.out);
	return status;
}

static int relocate(struct relocation *re, struct slice text, struct ttgir_result *result)
{
	int status = mlir_regions_read(text, &re->lines, re->err);

	if (status == PROTON_OK && !mlir_locations_read(text, &re->locations))
		status = err_nomem(re->err);
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
	mlir_locations_fini(&re.locations);
	mlir_regions_fini(&re.lines);
	free(re.insertions);
	provenance_fini(&provenance);
	if (status != PROTON_OK)
		ttgir_result_fini(result);
	return status;
}
