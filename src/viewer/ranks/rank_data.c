/* --ranks as JSON, for programs: all digits, all rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/ranks.h"
#include "viewer/ranks/rank_report.h"
#include "viewer/ranks/wait_report.h"
#include "viewer/viewer_options.h"

static void write_spread(const struct row_spread *spread, struct json_writer *json)
{
	json_key_array(json, "histogram");
	for (uint32_t i = 0; i < SPREAD_BUCKETS; i++)
		json_uint64(json, spread->bucket[i]);
	json_end_array(json);
	json_key_array(json, "top");
	for (uint32_t i = 0; i < SPREAD_TOP && spread->top_ns[i]; i++)
		json_uint64(json, spread->top_rank[i]);
	json_end_array(json);
}

static void put_number(struct json_writer *json, const char *name, const char *suffix, double value)
{
	char key[24];

	snprintf(key, sizeof(key), "%s%s", name, suffix);
	json_key_double(json, key, value);
}

void rank_row_json(const struct rank_row *row, const char *suffix, struct json_writer *json)
{
	json_key_uint64(json, "ranks", row->ranks);
	put_number(json, "mean", suffix, rank_row_mean(row));
	put_number(json, "min", suffix, row->min);
	json_key_uint64(json, "min_rank", row->min_rank);
	put_number(json, "max", suffix, row->max);
	json_key_uint64(json, "max_rank", row->max_rank);
	json_key_double(json, "imbalance", rank_row_imbalance(row));
	put_number(json, "saving", suffix, rank_row_saving(row));
}

/* The kernel times of a row, which are in units of `divisor` ns. */
static void write_times(const struct rank_row *row, double divisor, struct json_writer *json)
{
	const struct row_spread *spread = row->spread;

	json_key_uint64(json, "ranks", row->ranks);
	json_key_uint64(json, "sum_ns",
			spread ? spread->sum_ns : (uint64_t)(row->sum * divisor + 0.5));
	json_key_uint64(json, "min_ns",
			spread ? spread->min_ns : (uint64_t)(row->min * divisor + 0.5));
	json_key_uint64(json, "min_rank", row->min_rank);
	json_key_uint64(json, "max_ns",
			spread ? spread->max_ns : (uint64_t)(row->max * divisor + 0.5));
	json_key_uint64(json, "max_rank", row->max_rank);
	json_key_double(json, "imbalance", rank_row_imbalance(row));
	json_key_double(json, "saving_ns", rank_row_saving(row) * divisor);
	if (spread)
		write_spread(spread, json);
}

static void write_rows(const struct rank_rows *rows, struct report *report)
{
	struct json_writer *json = &report->json;
	size_t limit = report->options->query.rows;
	double divisor = rank_time_divisor(rows->metric);

	for (size_t i = 0; i < rows->count && (!limit || i < limit) && !json->out->errnum; i++) {
		const struct rank_row *row = &rows->items[i];
		char *path = rank_path(rows->profile, row->node);

		json_line_break(json);
		json_begin_object(json);
		json_key_text(json, "path", path);
		json_key_text(json, "metric", divisor > 0 ? "time" : rows->metric);
		if (divisor > 0)
			write_times(row, divisor, json);
		else
			rank_row_json(row, "", json);
		json_end_object(json);
		free(path);
	}
}

static void write_group(const struct rank_report *view, uint32_t number, struct out *members,
			struct report *report)
{
	const struct rank_group *group = &view->groups->items[number];
	struct json_writer *json = &report->json;
	char shape[24];
	struct rank_rows rows;

	snprintf(shape, sizeof(shape), "%016" PRIx64, group->shape);
	members->length = 0;
	rank_groups_members(view->groups, view->profile, number, 0, members);
	json_line_break(json);
	json_begin_object(json);
	json_key_uint64(json, "group", number + 1);
	json_key_text(json, "shape", shape);
	json_key(json, "members");
	json_string(json, members->bytes, members->length);
	write_times(&group->time, rank_time_divisor("time/ms"), json);
	json_key_array(json, "rows");
	/* With one group, these are the rows of the job. */
	if (view->groups->count > 1 && group->count > 1) {
		rank_rows_of_group(&rows, view->profile, "time/ms", view->groups->of_row, number);
		write_rows(&rows, report);
		rank_rows_fini(&rows);
	}
	json_end_array(json);
	json_end_object(json);
}

void rank_json(const struct rank_report *view, struct report *report)
{
	struct json_writer *json = &report->json;
	struct out members;

	out_init(&members, -1);
	json_key_bool(json, "partial", profile_is_partial(view->profile));
	json_key_bool(json, "mixed", *ranks_info(view->profile, RANKS_MIXED));
	rank_write_ranks(view, report);
	json_key_array(json, "rows");
	for (size_t i = 0; i < view->table_count; i++)
		write_rows(&view->tables[i], report);
	json_end_array(json);
	json_key_array(json, "groups");
	for (uint32_t g = 0; g < view->groups->count && !json->out->errnum; g++)
		write_group(view, g, &members, report);
	json_end_array(json);
	wait_report_json(view->profile, json);
	out_fini(&members);
}
