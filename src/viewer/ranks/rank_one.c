/* --rank: one rank of a job, from its own profile or from the columns of a merged file. */
#include "viewer/ranks/rank_views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/message.h"
#include "model/load.h"
#include "model/ranks.h"
#include "viewer/export/report_show.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_mix.h"
#include "viewer/ranks/rank_report.h"

#define EXIT_BAD 2

/* ------------------------------------------------------------------ files */

/* True for rank000017.proton and rank000017.PID.proton. */
static bool is_named(const char *path, uint32_t rank)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char start[32];
	int length = snprintf(start, sizeof(start), "rank%06u.", rank);

	return strncmp(name, start, (size_t)length) == 0;
}

/* True if files have the names of ranks: then no other file is of that rank. */
static bool has_rank_names(const struct input *input)
{
	for (size_t i = 0; i < input->count; i++) {
		const char *slash = strrchr(input->paths[i], '/');
		const char *name = slash ? slash + 1 : input->paths[i];

		if (strncmp(name, "rank", 4) == 0 && strspn(name + 4, "0123456789") >= 6)
			return true;
	}
	return false;
}

/* True if the profile was recorded by that rank. */
static bool is_recorded(const char *path, uint32_t rank)
{
	struct profile *profile = NULL;
	uint32_t recorded = RANK_NONE;

	if (strcmp(path, "-") == 0 || profile_load_file(path, &profile, NULL) != PROTON_OK)
		return false;
	rank_parse(ranks_info(profile, "rank"), &recorded);
	profile_free(profile);
	return recorded == rank;
}

/* Keeps the files for which `is_wanted`; leaves the input unchanged if there are none. */
static bool keep_files(struct input *input, uint32_t rank,
		       bool (*is_wanted)(const char *path, uint32_t rank))
{
	char **paths = xcalloc(input->count + 1, sizeof(*paths));
	struct input kept;
	size_t count = 0;

	for (size_t i = 0; i < input->count; i++)
		if (is_wanted(input->paths[i], rank))
			paths[count++] = input->paths[i];
	if (count) {
		input_init(&kept, paths, count);
		kept.needs_complete = input->needs_complete;
		kept.is_partial_allowed = input->is_partial_allowed;
		kept.is_mixed_allowed = input->is_mixed_allowed;
		kept.has_failed = input->has_failed;
		input_fini(input);
		*input = kept;
	}
	free(paths);
	return count > 0;
}

static bool is_merged_file(const char *path)
{
	struct profile *profile = NULL;
	bool is_merged;

	if (strcmp(path, "-") == 0 || profile_load_file(path, &profile, NULL) != PROTON_OK)
		return false;
	is_merged = profile->ranks != NULL;
	profile_free(profile);
	return is_merged;
}

/* The files of a rank are added up: they have to be of one launch. */
static int check_launch(const struct input *input, struct proton_error *err)
{
	struct profile *first = NULL;
	int status = PROTON_OK;

	for (size_t i = 0; i < input->count && input->count > 1 && status == PROTON_OK; i++) {
		struct profile *profile = NULL;
		char *mixed = NULL;

		if (profile_load_file(input->paths[i], &profile, NULL) != PROTON_OK)
			continue;
		if (first)
			mixed = rank_mix_of_two(first, input->paths[0], profile, input->paths[i]);
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
	struct input files = {0};
	struct proton_error none;
	size_t count;

	*has_files_out = true;
	if (input->count == 1 && is_merged_file(input->paths[0])) {
		*has_files_out = rank_input_files(input, true, "--rank", &files, &none) ==
				 PROTON_OK;
		if (!*has_files_out) {
			input_fini(&files);
			return PROTON_OK;
		}
		files.needs_complete = input->needs_complete;
		files.is_partial_allowed = input->is_partial_allowed;
		files.is_mixed_allowed = input->is_mixed_allowed;
		input_fini(input);
		*input = files;
	}
	count = input->count;
	if (keep_files(input, rank, is_named) ||
	    (!has_rank_names(input) && keep_files(input, rank, is_recorded)))
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

static int compare_own(const void *left, const void *right)
{
	const struct own_row *a = left;
	const struct own_row *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns > b->time_ns ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

static void fill_rows(struct own *own)
{
	const struct profile_ranks *ranks = own->profile->ranks;
	size_t at = (size_t)(own->rank - ranks->rows);

	own->items = xcalloc(ranks->column_count + 1, sizeof(*own->items));
	for (size_t c = 0; c < ranks->column_count; c++) {
		const uint64_t *cells = ranks->cells + c * ranks->count;
		struct own_row row = {ranks->column_nodes[c], cells[at], 1, 0, 0};

		for (size_t i = 0; i < ranks->count; i++) {
			row.place += cells[i] > cells[at];
			row.ranks += cells[i] > 0;
			row.mean_ns += (double)cells[i];
		}
		row.mean_ns /= row.ranks ? row.ranks : 1;
		if (row.time_ns)
			own->items[own->count++] = row;
	}
	if (own->count)
		qsort(own->items, own->count, sizeof(*own->items), compare_own);
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
	size_t limit = report->options->query.rows;

	write_head(own, report);
	report_begin(report, "rows", fields, ARRAY_LENGTH(fields));
	for (size_t i = 0; i < own->count && (!limit || i < limit) && !report->out->errnum; i++) {
		const struct own_row *row = &own->items[i];
		char *path = rank_path_for(own->profile, row->node, report);
		const struct report_value values[] = {
			VALUE_TEXT(path),
			VALUE_COUNT(row->time_ns),
			VALUE_NUMBER(row->mean_ns),
			VALUE_NUMBER((double)row->time_ns / row->mean_ns - 1),
			VALUE_COUNT(row->place),
			VALUE_COUNT(row->ranks),
		};

		report_row(report, values);
		free(path);
	}
	report_end(report);
}

/* True if only the options of a table of columns are given. */
static bool is_plain(const struct options *options)
{
	const struct query_options *query = &options->query;

	return query->mode == VIEW_TREE && !query->metric_count && !query->base &&
	       !query->gate_count && !query->warps && !query->source && !query->list &&
	       !query->include && !query->exclude && !output_is_export(&options->output);
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
	} else {
		fill_rows(&own);
		status = report_show(options, profile, write_rows, &own);
	}
	if (err.text[0])
		message("%s", err.text);
	free(own.items);
	profile_free(profile);
	return status;
}
