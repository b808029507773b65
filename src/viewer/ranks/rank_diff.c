/* --ranks --diff: frames of two jobs, matched by their path. */
#include "viewer/ranks/rank_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/csv_write.h"
#include "format/json_write.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"

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

/* ------------------------------------------------------------------ text */

/* The numbers that are compared; all 0 if the frame is not in the job. */
enum number {
	MEAN,
	MAX,
	IMBALANCE,
	SAVING,
	NUMBERS
};

static void fill(const struct rank_row *row, double *numbers)
{
	memset(numbers, 0, NUMBERS * sizeof(*numbers));
	if (!row->ranks)
		return;
	numbers[MEAN] = rank_row_mean(row);
	numbers[MAX] = row->max;
	numbers[IMBALANCE] = rank_row_imbalance(row);
	numbers[SAVING] = rank_row_saving(row);
}

static void print_pair(const struct rank_pair *pair, struct out *out)
{
	double before[NUMBERS];
	double after[NUMBERS];

	fill(&pair->before, before);
	fill(&pair->after, after);
	for (int i = 0; i < NUMBERS; i++) {
		double change = after[i] - before[i];

		if (i == IMBALANCE) {
			out_printf(out, " %8.1f%% %+8.1f%%", 100 * after[i], 100 * change);
			continue;
		}
		rank_print_value(out, after[i]);
		out_printf(out, fabs(change) < 1e6 ? " %+10.3f" : " %+10.4g", change);
	}
	out_text(out, "  ");
	text_clean(out, pair->path, strlen(pair->path));
	out_text(out, !pair->before.ranks  ? " (only after)\n"
		      : !pair->after.ranks ? " (only before)\n"
					   : "\n");
}

void rank_diff_print(const struct rank_report *report, struct out *out)
{
	const struct rank_diff *diffs = report->diffs;
	size_t limit = report->rows ? report->rows : RANK_ROWS_DEFAULT;

	for (size_t t = 0; t < report->table_count; t++) {
		if (t)
			out_byte(out, '\n');
		rank_print_about(report, diffs[t].metric, out);
		out_printf(out, "%11s %10s %10s %10s %9s %9s %10s %10s  %s\n", "mean", "change",
			   "max", "change", "imbalance", "change", "could go", "change", "frame");
		for (size_t i = 0; i < diffs[t].count && i < limit; i++)
			print_pair(&diffs[t].items[i], out);
	}
}

/* ------------------------------------------------------------------ CSV */

/* ",before,after"; nothing for a frame that is not there. */
static void put_two(struct out *out, const struct rank_pair *pair,
		    double (*number)(const struct rank_row *))
{
	out_byte(out, ',');
	if (pair->before.ranks)
		csv_number(out, number(&pair->before));
	out_byte(out, ',');
	if (pair->after.ranks)
		csv_number(out, number(&pair->after));
}

static double min_of(const struct rank_row *row)
{
	return row->min;
}

static double max_of(const struct rank_row *row)
{
	return row->max;
}

void rank_diff_csv(const struct rank_report *report, struct out *out)
{
	const struct rank_diff *diffs = report->diffs;
	size_t limit = report->rows ? report->rows : SIZE_MAX;

	out_text(out, "path,metric,ranks_before,ranks_after,mean_before,mean_after,min_before,"
		      "min_after,max_before,max_after,imbalance_before,imbalance_after,"
		      "could_go_before,could_go_after\n");
	for (size_t t = 0; t < report->table_count; t++) {
		for (size_t i = 0; i < diffs[t].count && i < limit && !out->errnum; i++) {
			const struct rank_pair *pair = &diffs[t].items[i];

			csv_text(out, pair->path, strlen(pair->path));
			out_byte(out, ',');
			csv_text(out, diffs[t].metric, strlen(diffs[t].metric));
			out_printf(out, ",%u,%u", pair->before.ranks, pair->after.ranks);
			put_two(out, pair, rank_row_mean);
			put_two(out, pair, min_of);
			put_two(out, pair, max_of);
			put_two(out, pair, rank_row_imbalance);
			put_two(out, pair, rank_row_saving);
			out_byte(out, '\n');
		}
	}
}

/* ------------------------------------------------------------------ JSON */

static void write_side(struct json_writer *json, const char *key, const struct rank_row *row)
{
	if (!row->ranks) {
		json_key_double(json, key, NAN); /* null */
		return;
	}
	json_key_object(json, key);
	json_key_uint64(json, "ranks", row->ranks);
	json_key_double(json, "mean", rank_row_mean(row));
	json_key_double(json, "min", row->min);
	json_key_uint64(json, "min_rank", row->min_rank);
	json_key_double(json, "max", row->max);
	json_key_uint64(json, "max_rank", row->max_rank);
	json_key_double(json, "imbalance", rank_row_imbalance(row));
	json_key_double(json, "saving", rank_row_saving(row));
	json_end_object(json);
}

void rank_diff_json(const struct rank_report *report, struct out *out)
{
	const struct rank_diff *diffs = report->diffs;
	size_t limit = report->rows ? report->rows : SIZE_MAX;
	struct json_writer json;

	json_writer_init(&json, out, false);
	json_begin_object(&json);
	json_key_array(&json, "rows");
	for (size_t t = 0; t < report->table_count; t++) {
		for (size_t i = 0; i < diffs[t].count && i < limit && !out->errnum; i++) {
			const struct rank_pair *pair = &diffs[t].items[i];

			json_line_break(&json);
			json_begin_object(&json);
			json_key_text(&json, "path", pair->path);
			json_key_text(&json, "metric", diffs[t].metric);
			write_side(&json, "before", &pair->before);
			write_side(&json, "after", &pair->after);
			json_end_object(&json);
		}
	}
	json_end_array(&json);
	rank_json_gates(report, &json);
	json_end_object(&json);
	out_byte(out, '\n');
}
