/* --ranks --diff: frames of two jobs, matched by their path. */
#include "viewer/ranks/rank_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "viewer/print/xalloc.h"
#include "viewer/viewer_options.h"

/* ------------------------------------------------------------------ matching */

struct named {
	char *path;
	const struct rank_row *row;
};

static int compare_names(const void *left, const void *right)
{
	const struct named *a = left;
	const struct named *b = right;
	int order = strcmp(a->path, b->path);

	return order ? order : (a->row->node > b->row->node) - (a->row->node < b->row->node);
}

static struct named *list_names(const struct rank_rows *rows)
{
	struct named *list = xcalloc(rows->count + 1, sizeof(*list));

	for (size_t i = 0; i < rows->count; i++)
		list[i] = (struct named){rank_path(rows->profile, rows->items[i].node),
					 &rows->items[i]};
	if (rows->count)
		qsort(list, rows->count, sizeof(*list), compare_names);
	return list;
}

static double saving_of(const struct rank_row *row)
{
	return row->ranks ? rank_row_saving(row) : 0;
}

static int compare_pairs(const void *left, const void *right)
{
	const struct rank_pair *a = left;
	const struct rank_pair *b = right;
	double x = fabs(saving_of(&a->after) - saving_of(&a->before));
	double y = fabs(saving_of(&b->after) - saving_of(&b->before));

	if (x != y)
		return x > y ? -1 : 1;
	return strcmp(a->path, b->path);
}

void rank_diff_init(struct rank_diff *diff, const struct rank_rows *before,
		    const struct rank_rows *after)
{
	struct named *olds = list_names(before);
	struct named *news = list_names(after);
	size_t i = 0;
	size_t j = 0;

	*diff = (struct rank_diff){.metric = after->metric};
	diff->items = xcalloc(before->count + after->count + 1, sizeof(*diff->items));
	while (i < before->count || j < after->count) {
		struct rank_pair *pair = &diff->items[diff->count++];
		int order = i == before->count  ? 1
			    : j == after->count ? -1
						: strcmp(olds[i].path, news[j].path);

		if (order <= 0) {
			pair->path = olds[i].path;
			pair->before = *olds[i++].row;
		}
		if (order >= 0) {
			if (order == 0)
				free(pair->path);
			pair->path = news[j].path;
			pair->after = *news[j++].row;
		}
	}
	free(olds);
	free(news);
	if (diff->count)
		qsort(diff->items, diff->count, sizeof(*diff->items), compare_pairs);
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
static double (*const numbers[])(const struct rank_row *row) = {
	rank_row_mean, rank_row_min, rank_row_max, rank_row_imbalance, rank_row_saving,
};

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
	struct report_value *at = values + 4;
	struct out frame;

	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++, at += 3) {
		double before = has_before ? numbers[i](&pair->before) : 0;
		double after = has_after ? numbers[i](&pair->after) : 0;

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
	out_fini(&frame);
}

static void write_pairs(struct report *report, const struct rank_diff *diff, size_t limit)
{
	for (size_t i = 0; i < diff->count && i < limit && !report->out->errnum; i++)
		write_pair(report, diff->metric, &diff->items[i]);
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

static void json_pairs(struct json_writer *json, const struct rank_diff *diff, size_t limit)
{
	for (size_t i = 0; i < diff->count && i < limit && !json->out->errnum; i++) {
		const struct rank_pair *pair = &diff->items[i];

		json_line_break(json);
		json_begin_object(json);
		json_key_text(json, "path", pair->path);
		json_key_text(json, "metric", diff->metric);
		write_side(json, "before", &pair->before);
		write_side(json, "after", &pair->after);
		json_end_object(json);
	}
}

void rank_diff_write(const struct rank_report *view, struct report *report)
{
	bool is_text = report->format == REPORT_TEXT;
	size_t limit = report->options->query.rows;

	if (!limit)
		limit = is_text ? RANK_ROWS_DEFAULT : SIZE_MAX;
	if (!is_text)
		report_begin(report, "rows", fields, FIELDS);
	for (size_t t = 0; t < view->table_count; t++) {
		const struct rank_diff *diff = &view->diffs[t];

		if (is_text) {
			out_text(report->out, t ? "\n" : "");
			rank_print_about(view, diff->metric, report->out);
			report_begin(report, NULL, fields, FIELDS);
		}
		if (report->format == REPORT_JSON)
			json_pairs(&report->json, diff, limit);
		else
			write_pairs(report, diff, limit);
	}
	report_end(report);
}
