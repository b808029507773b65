/* --ranks --diff: frames of two jobs, matched by their path. */
#include "viewer/ranks/rank_report.h"

#include <math.h>

#include "base/array.h"
#include "base/hash.h"
#include "viewer/print/xalloc.h"
#include "viewer/viewer_options.h"

/* ------------------------------------------------------------------ matching */

static double saving_of(const struct rank_row *row)
{
	return row->ranks ? rank_row_saving(row) : 0;
}

static double change_of(const struct rank_pair *pair)
{
	return fabs(saving_of(&pair->after) - saving_of(&pair->before));
}

ARRAY_ORDER(compare_pairs, struct rank_pair,
	    ORDER_OF(change_of(b), change_of(a)) ?: strcmp(a->path, b->path))

/* The pair with this path that has no row of the job before yet; 0: none. */
static uint32_t find_pair(const struct rank_diff *diff, const struct hash_table *by_path,
			  const char *path, uint64_t hash)
{
	uint64_t at = hash;
	uint32_t found;

	while ((found = hash_table_next(by_path, hash, &at)) != 0)
		if (!diff->items[found - 1].before.ranks &&
		    strcmp(diff->items[found - 1].path, path) == 0)
			break;
	return found;
}

void rank_diff_init(struct rank_diff *diff, const struct rank_rows *before,
		    const struct rank_rows *after)
{
	AT_END(hash_table_fini) struct hash_table by_path = {0}; /* index of a pair + 1 */

	*diff = (struct rank_diff){.metric = after->metric};
	diff->items = xcalloc(before->count + after->count + 1, sizeof(*diff->items));
	for (size_t i = 0; i < after->count; i++) {
		char *path = rank_path(after->profile, after->items[i].node, NAMES_RAW);

		diff->items[diff->count++] =
			(struct rank_pair){.path = path, .after = after->items[i]};
		if (!hash_table_add(&by_path, hash_stored(path, strlen(path)),
				    (uint32_t)diff->count))
			xgive_up();
	}
	for (size_t i = 0; i < before->count; i++) {
		char *path = rank_path(before->profile, before->items[i].node, NAMES_RAW);
		uint32_t found = find_pair(diff, &by_path, path, hash_stored(path, strlen(path)));

		if (found) {
			free(path);
		} else {
			diff->items[diff->count++].path = path;
			found = (uint32_t)diff->count;
		}
		diff->items[found - 1].before = before->items[i];
	}
	ARRAY_SORT(diff->items, diff->count, compare_pairs);
}

void rank_diff_fini(struct rank_diff *diff)
{
	for (size_t i = 0; i < diff->count; i++)
		free(diff->items[i].path);
	free(diff->items);
	*diff = (struct rank_diff){0};
}

/* ------------------------------------------------------------------ text and CSV */

/* The numbers of both jobs and, in text, their changes. */
static const enum rank_number numbers[] = {RANK_MEAN, RANK_MIN, RANK_MAX, RANK_IMBALANCE,
					   RANK_COULD_GO};

static const struct report_field fields[] = {
	{.name = "path"},
	{.name = "metric"},
	{.name = "ranks_before"},
	{.name = "ranks_after"},
	{.name = "mean_before"},
	{.name = "mean_after", .title = "mean", .columns = 10, .unit = REPORT_VALUE},
	{.title = "change", .columns = 10, .unit = REPORT_VALUE, .has_sign = true},
	{.name = "min_before"},
	{.name = "min_after"},
	{.name = NULL}, /* text does not have it */
	{.name = "max_before"},
	{.name = "max_after", .title = "max", .columns = 10, .unit = REPORT_VALUE},
	{.title = "change", .columns = 10, .unit = REPORT_VALUE, .has_sign = true},
	{.name = "imbalance_before"},
	{.name = "imbalance_after", .title = "imbalance", .columns = 9, .unit = REPORT_SHARE},
	{.title = "change", .columns = 9, .unit = REPORT_SHARE, .has_sign = true},
	{.name = "could_go_before"},
	{.name = "could_go_after", .title = "could go", .columns = 10, .unit = REPORT_VALUE},
	{.title = "change", .columns = 10, .unit = REPORT_VALUE, .has_sign = true},
	{.title = "frame"},
};
#define FIELDS ARRAY_LENGTH(fields)

/* A frame that is not in a job: blank in CSV, 0 in text. */
static void write_pair(struct report *report, const char *metric, const struct rank_pair *pair)
{
	bool has_before = pair->before.ranks > 0;
	bool has_after = pair->after.ranks > 0;
	struct report_value values[FIELDS] = {
		VALUE_TEXT(pair->path),
		VALUE_TEXT(metric),
		VALUE_COUNT(pair->before.ranks),
		VALUE_COUNT(pair->after.ranks),
	};
	struct report_value sides[2][RANK_NUMBERS];
	struct report_value *at = values + 4;
	AT_END(out_fini) struct out frame;

	rank_numbers(&pair->before, sides[0]);
	rank_numbers(&pair->after, sides[1]);
	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++, at += 3) {
		double before = has_before ? sides[0][numbers[i]].as.number : 0;
		double after = has_after ? sides[1][numbers[i]].as.number : 0;

		at[0] = has_before ? VALUE_NUMBER(before) : VALUE_NONE;
		at[1] = has_after || report->format == REPORT_TEXT ? VALUE_NUMBER(after)
								   : VALUE_NONE;
		at[2] = VALUE_NUMBER(after - before);
	}
	out_init(&frame, -1);
	out_text(&frame, pair->path);
	out_text(&frame, !has_before ? " (only after)" : !has_after ? " (only before)" : "");
	*at = report_string(frame.bytes, frame.length);
	report_row(report, values);
}

/* ------------------------------------------------------------------ JSON */

static void write_side(struct json_writer *json, const char *key, const struct rank_row *row)
{
	if (!row->ranks) {
		json_key_double(json, key, NAN); /* null */
		return;
	}
	json_key_object(json, key);
	rank_row_json(row, "", json);
	json_end_object(json);
}

static void json_pair(struct json_writer *json, const char *metric, const struct rank_pair *pair)
{
	json_line_break(json);
	json_begin_object(json);
	json_key_text(json, "path", pair->path);
	json_key_text(json, "metric", metric);
	write_side(json, "before", &pair->before);
	write_side(json, "after", &pair->after);
	json_end_object(json);
}

void rank_diff_write(const struct rank_report *view, struct report *report)
{
	bool is_text = report->format == REPORT_TEXT;
	size_t limit = report_rows(report, RANK_ROWS_DEFAULT);

	if (!is_text)
		report_begin(report, "rows", fields, FIELDS);
	for (size_t t = 0; t < view->table_count; t++) {
		const struct rank_diff *diff = &view->diffs[t];

		if (is_text) {
			out_text(report->out, t ? "\n" : "");
			rank_print_about(view, diff->metric, report->out);
			report_begin(report, NULL, fields, FIELDS);
		}
		for (size_t i = 0; i < diff->count && i < limit && !report->out->errnum; i++) {
			if (report->format == REPORT_JSON)
				json_pair(&report->json, diff->metric, &diff->items[i]);
			else
				write_pair(report, diff->metric, &diff->items[i]);
		}
	}
	report_end(report);
}
