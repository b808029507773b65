/* Automatic scopes: where they are inserted into TTGIR, and how many fit. */
#include "intra/ttgir/ttgir.h"

#include "intra/layout.h"
#include "intra/ttgir/find_operations.h"

/* A scope may need three codes: for its start, its end, and a whole execution. */
#define SCOPES_MAX (INSTRUMENT_CODE_MAX / 3)
/* Records that fit into the largest ring buffer if the mode sets no size; see llvm_pass.c. */
#define DEFAULT_RECORDS 512u
#define NAMES_IN_NOTE 6u

/* Scopes that start or end at a line: an index of a site, or SITE_NONE. */
struct around {
	uint32_t before;
	uint32_t after;
};

/* Maximum records of a ring buffer; its real size depends on the kernel's shared memory. */
static uint32_t records_of_ring(const struct instrument_mode *mode, uint32_t warp_count)
{
	uint32_t warps = warp_count ? warp_count : 1;
	uint32_t units = (warps + mode->warps_per_unit - 1) / mode->warps_per_unit;
	uint32_t chosen = (uint32_t)__builtin_popcountll(mode->warps);

	if (chosen && chosen < units)
		units = chosen;
	return mode->buffer_bytes ? mode->buffer_bytes / units / INSTRUMENT_RECORD_BYTES
				  : DEFAULT_RECORDS;
}

/* ------------------------------------------------------------------ omitted scopes */

static uint32_t count_dropped(const struct sites *sites, enum site_drop reason)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sites->scope_count; i++)
		count += sites->scopes[i].dropped == reason;
	return count;
}

/* Names of the scopes that are dropped for the reason, up to NAMES_IN_NOTE. */
static void write_names(struct out *out, const struct sites *sites, enum site_drop reason,
			uint32_t count)
{
	uint32_t named = 0;

	for (uint32_t i = 0; i < sites->scope_count && named < NAMES_IN_NOTE; i++)
		if (sites->scopes[i].dropped == reason)
			out_printf(out, "%s%s", named++ ? ", " : "", sites->scopes[i].name);
	if (count > named)
		out_text(out, ", ...");
}

static void write_registers(struct out *out, const struct sites *sites, struct slice costs)
{
	uint32_t dropped = count_dropped(sites, SITE_HEAVY);

	if (!dropped)
		return;
	out_printf(
		out,
		"%u of %u automatic scopes were omitted, because with more its scopes would cost "
		"%.*s: ",
		dropped, sites->scope_count, (int)costs.length, costs.at);
	write_names(out, sites, SITE_HEAVY, dropped);
	out_text(out, "; ");
}

static void write_budget(struct out *out, const struct sites *sites,
			 const struct scope_budget *budget, uint32_t percent)
{
	bool is_above = budget->kept > percent;

	if (!sites->scope_count || (!budget->dropped && !is_above && budget->stride == 1)) {
		out_text(out, out->length ? "for more, set budget=off" : "");
		return;
	}
	if (budget->dropped) {
		out_printf(out,
			   "%u of %u automatic scopes were omitted at first, because all were "
			   "predicted to cost %.0f %% of the time and the budget is %u %%: ",
			   budget->dropped, sites->scope_count, budget->all, percent);
		write_names(out, sites, SITE_COSTLY, budget->dropped);
		out_printf(out, "; the others cost %.1f %%; ", budget->kept);
	} else if (is_above) {
		out_printf(out,
			   "its automatic scopes were predicted to cost %.1f %% of the time, more "
			   "than the budget of %u %%; ",
			   budget->kept, percent);
	}
	if (budget->stride > 1)
		out_printf(out,
			   "one of %u CTAs records, because the ends of all were predicted to "
			   "cost more than a quarter of the budget of %u %%; ",
			   budget->stride, percent);
	out_text(out, "for more, increase budget or set budget=off");
}

static void write_room(struct out *out, const struct sites *sites, uint32_t dropped,
		       uint32_t records)
{
	out_printf(out,
		   "%u of %u automatic scopes were omitted, details and innermost loops first, "
		   "because a warp can hold %u records and a kernel %u scopes: ",
		   dropped + sites->missed, sites->scope_count + sites->missed, records,
		   SCOPES_MAX);
	write_names(out, sites, SITE_NO_ROOM, dropped + sites->missed);
	out_text(out, "; increase buffer_size or select fewer kinds in auto=");
}

/* Silence would look like a kernel without such operations. */
static void write_unknown(struct out *out, const struct sites *sites)
{
	if (sites->has_function && !sites->unknown_count)
		return;
	out_text(out, out->length ? "; " : "");
	if (!sites->has_function)
		out_text(out, "none of its operations has an automatic scope, because its function "
			      "was not recognized");
	else
		out_printf(out,
			   "%u operations were not recognized and have no automatic scopes, the "
			   "first is %.*s",
			   sites->unknown_count, (int)sites->first_unknown.length,
			   sites->first_unknown.at);
	out_text(out, "; report it, with Triton's version");
}

/* `percent`: 0 if the budget did not decide. */
static char *write_note(const struct sites *sites, uint32_t records,
			const struct scope_budget *budget, uint32_t percent, struct slice costs)
{
	AT_END(out_fini) struct out out;
	uint32_t dropped = count_dropped(sites, SITE_NO_ROOM);
	size_t length;

	out_init(&out, -1);
	if (percent) {
		write_registers(&out, sites, costs);
		write_budget(&out, sites, budget, percent);
	}
	if (dropped || sites->missed) {
		out_text(&out, out.length ? "; " : "");
		write_room(&out, sites, dropped, records);
	}
	write_unknown(&out, sites);
	return out.length ? out_take(&out, &length) : NULL;
}

/* ------------------------------------------------------------------ writing */

static void write_marker(struct mlir_writer *writer, const struct sites *sites, uint32_t index,
			 struct slice indent, bool is_end)
{
	const struct site *site = &sites->sites[index];
	const char *name = sites->scopes[site->scope].name;
	struct marker marker = {.is_end = is_end, .name_length = strlen(name)};

	memcpy(marker.name, name, marker.name_length);
	mlir_write_marker(writer, indent, site->location, &marker);
}

static bool is_kept(const struct sites *sites, uint32_t index)
{
	return index != SITE_NONE && sites->sites[index].scope != SITE_NONE &&
	       !sites->scopes[sites->sites[index].scope].dropped;
}

static struct slice indent_of(struct slice line)
{
	return slice_between(line.at, slice_trim(line).at);
}

static void write_text(struct mlir_writer *writer, const struct sites *sites, struct slice text,
		       const struct mlir_regions *lines, const struct around *around)
{
	for (uint32_t i = 0; i < lines->count; i++) {
		struct slice line = lines->at[i].text;
		uint32_t before = around[i].before;
		uint32_t after = around[i].after;
		bool has_newline = slice_end(line) < slice_end(text);

		if (is_kept(sites, before))
			write_marker(writer, sites, before, indent_of(line),
				     sites->sites[before].is_inner);
		out_bytes(&writer->out, line.at, line.length + has_newline);
		if (!is_kept(sites, after))
			continue;
		if (!has_newline)
			out_byte(&writer->out, '\n');
		/* Inside a partition: indented like the next line. */
		if (sites->sites[after].is_inner)
			write_marker(writer, sites, after, indent_of(lines->at[i + 1].text), false);
		else
			write_marker(writer, sites, after, sites->sites[after].indent, true);
	}
}

static struct around *place_sites(uint32_t line_count, const struct sites *sites)
{
	struct around *around = calloc(line_count + 1, sizeof(*around));

	if (!around)
		return NULL;
	for (uint32_t i = 0; i < line_count; i++)
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

static int list_names(const struct sites *sites, char **names_out, struct proton_error *err)
{
	struct out out;
	size_t length;

	out_init(&out, -1);
	for (uint32_t i = 0; i < sites->scope_count; i++)
		out_printf(&out, "%s\n", sites->scopes[i].name);
	return out_finish_text(&out, names_out, &length, err);
}

int ttgir_insert_scopes(const char *text, size_t length, const struct instrument_mode *mode,
			const struct ttgir_insertion *how, struct ttgir_result *result,
			struct proton_error *err)
{
	struct slice whole = {text, length};
	struct mlir_writer writer;
	AT_END(mlir_regions_fini) struct mlir_regions lines = {0};
	AUTO_FREE struct around *around = NULL;
	struct scope_budget budget = {.stride = 1};
	AT_END(operations_fini) struct sites sites = {0};
	uint32_t records;

	*result = (struct ttgir_result){0};
	if (!mode->autos)
		return PROTON_OK;
	int status = mlir_writer_init(&writer, whole, how->is_amd, err);
	writer.is_record = how->spelling == TTGIR_RECORDS;
	if (status == PROTON_OK)
		status = mlir_regions_read(whole, &lines, err);
	if (status == PROTON_OK) {
		if (operations_find(&lines, mode->autos, &sites) && operations_name(&sites))
			around = place_sites(lines.count, &sites);
		status = around ? PROTON_OK : err_nomem(err);
	}
	if (status == PROTON_OK && mode->budget)
		status = scope_budget_apply(&lines, mode, how, &sites, &budget, err);
	if (status == PROTON_OK && how->only.length)
		scope_budget_keep(&sites, how->only);
	if (status == PROTON_OK)
		status = list_names(&sites, &result->names, err);
	if (status == PROTON_OK) {
		records = how->records ? how->records : records_of_ring(mode, sites.warp_count);
		result->record_count = operations_limit(&sites, SCOPES_MAX, records);
		write_text(&writer, &sites, whole, &lines, around);
		status = mlir_writer_finish(&writer, writer.marker_count, &result->text,
					    &result->length, err);
		result->cta_stride = budget.stride;
		for (uint32_t i = 0; i < sites.scope_count; i++)
			result->scope_count += !sites.scopes[i].dropped;
	}
	if (status == PROTON_OK)
		result->note = write_note(&sites, records, &budget,
					  how->only.length ? 0 : mode->budget, how->costs);
	else
		ttgir_result_fini(result);
	return status;
}
