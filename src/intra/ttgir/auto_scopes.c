/* Automatic scopes: where they are inserted into TTGIR, and how many fit. */
#include "intra/ttgir/ttgir.h"

#include <stdlib.h>

#include "intra/layout.h"
#include "intra/ttgir/find_operations.h"

/* A scope may need three codes: for its start, its end, and a whole execution. */
#define SCOPES_MAX (INSTRUMENT_CODE_MAX / 3)
/* Records that fit into a ring buffer in any case if the mode sets no size; see llvm_pass.c. */
#define SHARED_RECORDS 64u
#define GLOBAL_RECORDS 512u
#define NAMES_IN_NOTE 6u

/* Scopes that start or end at a line: an index of a site, or SITE_NONE. */
struct around {
	uint32_t before;
	uint32_t after;
};

static uint32_t records_of_ring(const struct instrument_mode *mode, uint32_t warp_count)
{
	uint32_t warps = warp_count ? warp_count : 1;
	uint32_t units = (warps + mode->warps_per_unit - 1) / mode->warps_per_unit;
	uint32_t chosen = (uint32_t)__builtin_popcountll(mode->warps);

	if (chosen && chosen < units)
		units = chosen;
	if (mode->buffer_bytes)
		return mode->buffer_bytes / units / INSTRUMENT_RECORD_BYTES;
	return mode->buffer == INSTRUMENT_BUFFER_SHARED ? SHARED_RECORDS : GLOBAL_RECORDS;
}

/* ------------------------------------------------------------------ omitted scopes */

static char *write_note(const struct sites *sites, uint32_t records)
{
	struct out out;
	uint32_t dropped = 0;
	uint32_t named = 0;
	size_t length;
	char *text;

	for (uint32_t i = 0; i < sites->scope_count; i++)
		dropped += sites->scopes[i].is_dropped;
	if (!dropped && !sites->missed)
		return NULL;
	out_init(&out, -1);
	out_printf(
		&out,
		"%u of %u automatic scopes were omitted, innermost loops first, because a warp can "
		"hold %u records and a kernel %u scopes: ",
		dropped + sites->missed, sites->scope_count + sites->missed, records, SCOPES_MAX);
	for (uint32_t i = 0; i < sites->scope_count && named < NAMES_IN_NOTE; i++)
		if (sites->scopes[i].is_dropped)
			out_printf(&out, "%s%s", named++ ? ", " : "", sites->scopes[i].name);
	if (dropped + sites->missed > named)
		out_text(&out, ", ...");
	out_text(&out, "; increase buffer_size or select fewer kinds in auto=");
	text = out_take(&out, &length);
	out_fini(&out);
	return text;
}

/* ------------------------------------------------------------------ writing */

struct insertion {
	struct out *out;
	const struct sites *sites;
	char prefix[MLIR_PREFIX_MAX];
	uint32_t marker_count;
	bool is_amd;
	bool is_record;
};

static void write_marker(struct insertion *in, uint32_t index, struct slice indent, bool is_end)
{
	const struct site *site = &in->sites->sites[index];
	const char *name = in->sites->scopes[site->scope].name;
	struct mlir_marker marker = {
		.indent = indent,
		.location = site->location,
		.prefix = in->is_record ? NULL : in->prefix,
		.number = in->marker_count++,
		.is_amd = in->is_amd,
		.is_end = is_end,
		.name = {name, strlen(name)},
	};

	if (in->is_record)
		marker.location.length = 0; /* this text is for a user to edit */
	mlir_marker_write(&marker, in->out);
}

static bool is_kept(const struct sites *sites, uint32_t index)
{
	return index != SITE_NONE && sites->sites[index].scope != SITE_NONE &&
	       !sites->scopes[sites->sites[index].scope].is_dropped;
}

static void write_text(struct insertion *in, struct slice text, const struct around *around)
{
	const struct sites *sites = in->sites;
	struct slice line;

	for (uint32_t number = 0; mlir_take_line(&text, &line); number++) {
		uint32_t before = around[number].before;
		uint32_t after = around[number].after;

		if (is_kept(sites, before))
			write_marker(in, before, mlir_indent(line), sites->sites[before].is_inner);
		out_bytes(in->out, line.at, line.length);
		if (line.at + line.length < text.at || is_kept(sites, after))
			out_byte(in->out, '\n');
		if (!is_kept(sites, after))
			continue;
		/* Inside a partition: indented like the next line. */
		if (sites->sites[after].is_inner)
			write_marker(in, after, mlir_indent(text), false);
		else
			write_marker(in, after, sites->sites[after].indent, true);
	}
}

static struct around *place_sites(struct slice text, const struct sites *sites)
{
	struct slice line;
	uint32_t count = 0;
	struct around *around;

	for (struct slice rest = text; mlir_take_line(&rest, &line); count++)
		;
	around = calloc(count ? count : 1, sizeof(*around));
	if (!around)
		return NULL;
	for (uint32_t i = 0; i < count; i++)
		around[i] = (struct around){SITE_NONE, SITE_NONE};
	for (uint32_t i = 0; i < sites->count; i++) {
		const struct site *site = &sites->sites[i];

		if (site->end_line == SITE_NONE)
			continue;
		if (site->is_inner) {
			around[site->start_line].after = i;
			around[site->end_line].before = i;
		} else {
			around[site->start_line].before = i;
			around[site->end_line].after = i;
		}
	}
	return around;
}

static int insert(struct slice text, const struct sites *sites, struct insertion *in,
		  struct ttgir_result *result, struct proton_error *err)
{
	struct out out;
	struct around *around = place_sites(text, sites);
	int status;

	if (!around)
		return err_nomem(err);
	out_init(&out, -1);
	in->out = &out;
	in->sites = sites;
	write_text(in, text, around);
	status = out_finish(&out, err);
	if (status == PROTON_OK && in->marker_count) {
		result->text = out_take(&out, &result->length);
		if (!result->text)
			status = err_nomem(err);
	}
	out_fini(&out);
	in->out = NULL;
	free(around);
	return status;
}

int ttgir_insert_scopes(const char *text, size_t length, const struct instrument_mode *mode,
			bool is_amd, enum ttgir_spelling spelling, struct ttgir_result *result,
			struct proton_error *err)
{
	struct slice whole = {text, length};
	struct insertion in = {
		.is_amd = is_amd || mlir_is_amd(whole),
		.is_record = spelling == TTGIR_RECORDS,
	};
	struct sites sites;
	uint32_t records;
	int status;

	*result = (struct ttgir_result){0};
	if (!mode->autos)
		return PROTON_OK;
	if (!mlir_unused_prefix(whole, in.prefix))
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "all SSA names of the form %%proton_... are in use");
	status = sites_find(whole, mode->autos, &sites, err);
	if (status != PROTON_OK)
		return status;
	records = records_of_ring(mode, sites.warp_count);
	if (!sites_name(&sites)) {
		status = err_nomem(err);
	} else {
		sites_limit(&sites, SCOPES_MAX, records);
		status = insert(whole, &sites, &in, result, err);
		result->note = status == PROTON_OK ? write_note(&sites, records) : NULL;
		for (uint32_t i = 0; i < sites.scope_count; i++)
			result->scope_count += !sites.scopes[i].is_dropped;
	}
	sites_fini(&sites);
	if (status != PROTON_OK)
		ttgir_result_fini(result);
	return status;
}
