/* --rank: one rank of a job, from its own profile or from the columns of a merged file. */
#include "viewer/ranks/rank_views.h"

#include "base/array.h"
#include "base/message.h"
#include "model/ranks.h"
#include "viewer/export/save.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_merge.h"
#include "viewer/ranks/rank_report.h"

/* ------------------------------------------------------------------ files */

static uint32_t recorded_rank(const char *path)
{
	struct profile *profile = input_load_quietly(path);
	uint32_t recorded = RANK_NONE;

	if (profile)
		rank_parse(profile_info_text(profile, "rank"), &recorded);
	profile_free(profile);
	return recorded;
}

/* Keeps the files of a rank. If some have names of ranks, the others are not of it. */
static void keep_files(struct input *input, uint32_t rank)
{
	uint32_t (*rank_of)(const char *path) = recorded_rank;
	const char **names = xcalloc(input->count, sizeof(*names));
	const char *first = NULL;

	for (size_t i = 0; i < input->count; i++)
		if (rank_of_name(input->paths[i]) != RANK_NONE)
			rank_of = rank_of_name;
	for (size_t i = 0; i < input->count; i++) {
		if (rank_of(input->paths[i]) != rank)
			continue;
		first = first ? first : input->paths[i];
		names[i] = first;
	}
	input_regroup(input, names);
	free(names);
}

/* The files of a rank are added up: they have to be of one launch. */
static int check_launch(const struct input *input, struct proton_error *err)
{
	struct profile *first = NULL;
	int status = PROTON_OK;

	for (size_t i = 0; i < input->count && input->count > 1 && status == PROTON_OK; i++) {
		struct profile *profile = input_load_quietly(input->paths[i]);
		char *mixed = first && profile ? rank_mix_of_two(first, input->paths[0], profile,
								 input->paths[i])
					       : NULL;

		if (mixed)
			status = err_set(err, PROTON_E_INVALID,
					 "--rank: the files are not of one launch: %s; name those "
					 "of one, or use --allow-mixed",
					 mixed);
		free(mixed);
		if (first)
			profile_free(profile);
		else
			first = profile;
	}
	profile_free(first);
	return status;
}

int rank_one_select(struct input *input, uint32_t rank, bool *has_files_out,
		    struct proton_error *err)
{
	struct proton_error none;

	for (size_t u = 0; u < input->unit_count; u++)
		if (input->units[u].is_job && input->unit_count > 1)
			return err_set(err, PROTON_E_INVALID,
				       "--rank is about one job, and the input has more: %s and "
				       "%s; name one",
				       input->units[u].name, input->units[u ? 0 : 1].name);
	*has_files_out = rank_input_expand(input, "--rank", &none) == PROTON_OK;
	if (!*has_files_out)
		return PROTON_OK;
	size_t count = input->count;
	keep_files(input, rank);
	if (input->count)
		return input->is_mixed_allowed ? PROTON_OK : check_launch(input, err);
	return err_set(err, PROTON_E_INVALID,
		       "--rank %u: none of the %zu profile%s is of that rank", rank, count,
		       count == 1 ? "" : "s");
}

/* ------------------------------------------------------------------ columns */

/* A frame with the time of the rank. */
struct own_row {
	uint32_t node;
	uint64_t time_ns;
	uint32_t place; /* 1: the slowest of the ranks */
	double mean_ns;
	uint32_t ranks;
};

struct own {
	const struct profile *profile;
	const struct row_rank *rank;
	struct own_row *items; /* the largest time first */
	size_t count;
};

ARRAY_ORDER(compare_own, struct own_row,
	    ORDER_OF(b->time_ns, a->time_ns) ?: ORDER_OF(a->node, b->node))

/* Without hidden frames: a row has the time below its frame, so the others stay the same. */
static int fill_rows(struct own *own, const struct hiding *hiding, struct proton_error *err)
{
	const struct profile_ranks *ranks = own->profile->ranks;
	size_t at = (size_t)(own->rank - ranks->rows);
	size_t hidden;
	AUTO_FREE bool *is_hidden = NULL;

	TRY(hiding_find(hiding, own->profile, &is_hidden, &hidden, err));
	own->items = xcalloc(ranks->column_count + 1, sizeof(*own->items));
	for (size_t c = 0; c < ranks->column_count; c++) {
		const uint64_t *cells = ranks->cells + c * ranks->count;
		struct own_row row = {ranks->columns[c].node, cells[at], 1, 0, 0};

		for (size_t i = 0; i < ranks->count; i++) {
			row.place += cells[i] > cells[at];
			row.ranks += cells[i] > 0;
			row.mean_ns += (double)cells[i];
		}
		row.mean_ns /= row.ranks ? row.ranks : 1;
		if (row.time_ns && !is_hidden[row.node])
			own->items[own->count++] = row;
	}
	ARRAY_SORT(own->items, own->count, compare_own);
	return PROTON_OK;
}

static void write_head(const struct own *own, struct report *report)
{
	const char *host = profile_text(own->profile, own->rank->host);

	if (report->format == REPORT_JSON) {
		json_key_uint64(&report->json, "rank", own->rank->rank);
		json_key_text(&report->json, "state", rank_state_name(own->rank->state));
		json_key_text(&report->json, "host", host);
	} else if (report->format == REPORT_TEXT) {
		out_printf(report->out, "rank %u, %s", own->rank->rank,
			   rank_state_name(own->rank->state));
		out_text(report->out, *host ? ", on host " : "");
		text_clean(report->out, host, strlen(host));
		out_text(report->out, "; times in ms, of the frames that the merged file has for "
				      "each rank\n\n");
	}
}

static void write_rows(const void *context, struct report *report)
{
	static const struct report_field fields[] = {
		{.name = "path", .title = "frame", .place = 1},
		{.name = "time_ns", .title = "time", .columns = 10, .unit = REPORT_NS},
		{.name = "mean_ns", .title = "mean", .columns = 10, .unit = REPORT_NS},
		{.title = "vs mean", .columns = 8, .unit = REPORT_SHARE, .has_sign = true},
		{.name = "place", .title = "place", .columns = 7},
		{.name = "ranks", .title = "of", .columns = 7},
	};
	const struct own *own = context;
	size_t limit = report_rows(report, SIZE_MAX);

	write_head(own, report);
	report_begin(report, "rows", fields, ARRAY_LENGTH(fields));
	for (size_t i = 0; i < own->count && i < limit && !report->out->errnum; i++) {
		const struct own_row *row = &own->items[i];
		AUTO_FREE char *path = rank_path_for(own->profile, row->node, report);
		const struct report_value values[] = {
			VALUE_TEXT(path),
			VALUE_COUNT(row->time_ns),
			VALUE_NUMBER(row->mean_ns),
			VALUE_NUMBER((double)row->time_ns / row->mean_ns - 1),
			VALUE_COUNT(row->place),
			VALUE_COUNT(row->ranks),
		};

		report_row(report, values);
	}
	report_end(report);
}

/* True if only the options of a table of columns are given. */
static bool is_plain(const struct options *options)
{
	const struct query_options *query = &options->query;

	return query->mode == VIEW_TREE && !query->metric_count && !query->base &&
	       !query->gate_count && !query->brief && !query->warps && !query->source &&
	       !query->list && !query->include && !query->exclude &&
	       !output_is_export(&options->output);
}

int rank_one_run(const struct options *options, struct input *input)
{
	struct own own = {0};
	struct proton_error err = {0};
	struct profile *profile = input_load(input, 0);
	int status = EXIT_BAD;

	if (!profile)
		return EXIT_BAD;
	own.profile = profile;
	own.rank = ranks_row(profile, options->query.rank);
	if (!own.rank) {
		err_set(&err, PROTON_E_INVALID, "--rank %u: %s has no such rank",
			options->query.rank, input->paths[0]);
	} else if (!profile->ranks->column_count || !is_plain(options)) {
		err_set(&err, PROTON_E_INVALID,
			"--rank %u needs the profile of that rank: %s is a merged file%s, and the "
			"directory of the ranks is not next to it",
			options->query.rank, input->paths[0],
			is_plain(options) ? " without times of single ranks" : "");
	} else if (fill_rows(&own, &options->query.hiding, &err) == PROTON_OK) {
		status = report_show(options, profile, write_rows, &own);
	}
	if (err.text[0])
		message("%s", err.text);
	free(own.items);
	profile_free(profile);
	return status;
}
