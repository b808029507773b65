/* --ranks as CSV and JSON, for programs: all digits, all rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/csv_write.h"
#include "format/json_write.h"
#include "model/ranks.h"
#include "viewer/numbers/gate_report.h"
#include "viewer/ranks/rank_diff.h"
#include "viewer/ranks/wait_report.h"

/* ------------------------------------------------------------------ CSV */

static void put_text(struct out *out, const char *text)
{
	csv_text(out, text, strlen(text));
}

static void put_number(struct out *out, double value)
{
	out_byte(out, ',');
	csv_number(out, value);
}

/* The end of a line: whether the profiles are incomplete is in all lines, or in none. */
static void end_line(const struct rank_report *report, struct out *out)
{
	out_text(out, profile_is_partial(report->profile) ? ",1\n" : "\n");
}

static void put_head(const struct rank_report *report, const char *fields, struct out *out)
{
	out_text(out, fields);
	out_text(out, profile_is_partial(report->profile) ? ",partial\n" : "\n");
}

#define NUMBERS_HEAD "ranks,mean,min,min_rank,max,max_rank,imbalance,could_go"

static void put_numbers(const struct rank_row *row, struct out *out)
{
	out_printf(out, "%u", row->ranks);
	put_number(out, rank_row_mean(row));
	put_number(out, row->min);
	out_printf(out, ",%u", row->min_rank);
	put_number(out, row->max);
	out_printf(out, ",%u", row->max_rank);
	put_number(out, rank_row_imbalance(row));
	put_number(out, rank_row_saving(row));
}

static void csv_frames(const struct rank_report *report, const struct rank_rows *rows,
		       struct out *out)
{
	size_t limit = report->rows ? report->rows : SIZE_MAX;

	for (size_t i = 0; i < rows->count && i < limit && !out->errnum; i++) {
		char *path = rank_path(rows->profile, rows->items[i].node);

		put_text(out, path);
		out_byte(out, ',');
		put_text(out, rows->metric);
		out_byte(out, ',');
		put_numbers(&rows->items[i], out);
		end_line(report, out);
		free(path);
	}
}

/* The number of a rank's group, from 1; nothing if it is not in a group. */
static void put_group(const struct rank_report *report, size_t row, struct out *out)
{
	uint32_t group = report->groups->of_row[row];

	if (group != RANK_GROUP_NONE)
		out_printf(out, "%u", group + 1);
}

static void csv_ranks(const struct rank_report *report, struct out *out)
{
	const struct profile *profile = report->profile;
	const struct profile_ranks *ranks = profile->ranks;

	put_head(report, "rank,state,host,job,gpu,attempt,time_ns,kernels,lost,group", out);
	for (size_t i = 0; i < ranks->count && !out->errnum; i++) {
		const struct row_rank *row = &ranks->rows[i];

		out_printf(out, "%u,%s,", row->rank, rank_state_name(row->state));
		put_text(out, profile_text(profile, row->host));
		out_byte(out, ',');
		put_text(out, profile_text(profile, row->job));
		out_byte(out, ',');
		put_text(out, profile_text(profile, row->gpu));
		out_printf(out, ",%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", row->attempt,
			   row->time_ns, row->kernels, row->lost);
		put_group(report, i, out);
		end_line(report, out);
	}
}

/* Times are in ms, as those of frames by default. */
static void csv_groups(const struct rank_report *report, struct out *out)
{
	struct out members;

	out_init(&members, -1);
	put_head(report, "group,shape," NUMBERS_HEAD ",members", out);
	for (uint32_t g = 0; g < report->groups->count && !out->errnum; g++) {
		const struct rank_group *group = &report->groups->items[g];

		out_printf(out, "%u,%016" PRIx64 ",", g + 1, group->shape);
		put_numbers(&group->time, out);
		members.length = 0;
		rank_groups_members(report->groups, report->profile, g, 0, &members);
		out_byte(out, ',');
		csv_text(out, members.bytes, members.length);
		end_line(report, out);
	}
	out_fini(&members);
}

void rank_csv(const void *context, struct out *out)
{
	const struct rank_report *report = context;

	if (report->diffs) {
		rank_diff_csv(report, out);
		return;
	}
	if (report->table == RANKS_RANKS) {
		csv_ranks(report, out);
		return;
	}
	if (report->table == RANKS_GROUPS) {
		csv_groups(report, out);
		return;
	}
	put_head(report, "path,metric," NUMBERS_HEAD, out);
	for (size_t i = 0; i < report->table_count; i++)
		csv_frames(report, &report->tables[i], out);
}

/* ------------------------------------------------------------------ JSON */

static void write_ranks(const struct rank_report *report, struct json_writer *json)
{
	const struct profile *profile = report->profile;
	const struct profile_ranks *ranks = profile->ranks;

	json_key_array(json, "ranks");
	for (size_t i = 0; ranks && i < ranks->count && !json->out->errnum; i++) {
		const struct row_rank *row = &ranks->rows[i];
		uint32_t group = report->groups->of_row[i];

		json_line_break(json);
		json_begin_object(json);
		json_key_uint64(json, "rank", row->rank);
		json_key_text(json, "state", rank_state_name(row->state));
		json_key_text(json, "host", profile_text(profile, row->host));
		json_key_text(json, "job", profile_text(profile, row->job));
		json_key_text(json, "gpu", profile_text(profile, row->gpu));
		json_key_uint64(json, "attempt", row->attempt);
		json_key_uint64(json, "time_ns", row->time_ns);
		json_key_uint64(json, "kernels", row->kernels);
		json_key_uint64(json, "lost", row->lost);
		if (row->version)
			json_key_text(json, "version", profile_text(profile, row->version));
		if (row->reason)
			json_key_text(json, "reason", profile_text(profile, row->reason));
		if (row->mixed)
			json_key_text(json, "mixed", profile_text(profile, row->mixed));
		if (group != RANK_GROUP_NONE)
			json_key_uint64(json, "group", group + 1);
		json_end_object(json);
	}
	json_end_array(json);
}

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

/* Kernel times are integers in ns, other values are in the unit of the metric. */
static void write_extremes(const struct rank_row *row, double divisor, struct json_writer *json)
{
	const struct row_spread *spread = row->spread;

	json_key_uint64(json, "ranks", row->ranks);
	if (spread) {
		json_key_uint64(json, "sum_ns", spread->sum_ns);
		json_key_uint64(json, "min_ns", spread->min_ns);
	} else if (divisor > 0) {
		json_key_uint64(json, "sum_ns", (uint64_t)(row->sum * divisor + 0.5));
		json_key_uint64(json, "min_ns", (uint64_t)(row->min * divisor + 0.5));
	} else {
		json_key_double(json, "mean", rank_row_mean(row));
		json_key_double(json, "min", row->min);
	}
	json_key_uint64(json, "min_rank", row->min_rank);
	if (spread)
		json_key_uint64(json, "max_ns", spread->max_ns);
	else if (divisor > 0)
		json_key_uint64(json, "max_ns", (uint64_t)(row->max * divisor + 0.5));
	else
		json_key_double(json, "max", row->max);
	json_key_uint64(json, "max_rank", row->max_rank);
	json_key_double(json, "imbalance", rank_row_imbalance(row));
	json_key_double(json, divisor > 0 ? "saving_ns" : "saving",
			rank_row_saving(row) * (divisor > 0 ? divisor : 1));
}

static void write_rows(const struct rank_report *report, const struct rank_rows *rows,
		       struct json_writer *json)
{
	size_t limit = report->rows ? report->rows : SIZE_MAX;
	double divisor = rank_time_divisor(rows->metric);

	for (size_t i = 0; i < rows->count && i < limit && !json->out->errnum; i++) {
		const struct rank_row *row = &rows->items[i];
		char *path = rank_path(rows->profile, row->node);

		json_line_break(json);
		json_begin_object(json);
		json_key_text(json, "path", path);
		json_key_text(json, "metric", divisor > 0 ? "time" : rows->metric);
		write_extremes(row, divisor, json);
		if (row->spread)
			write_spread(row->spread, json);
		json_end_object(json);
		free(path);
	}
}

static void write_group(const struct rank_report *report, uint32_t number, struct out *members,
			struct json_writer *json)
{
	const struct rank_group *group = &report->groups->items[number];
	char shape[24];
	struct rank_rows rows;

	snprintf(shape, sizeof(shape), "%016" PRIx64, group->shape);
	members->length = 0;
	rank_groups_members(report->groups, report->profile, number, 0, members);
	json_line_break(json);
	json_begin_object(json);
	json_key_uint64(json, "group", number + 1);
	json_key_text(json, "shape", shape);
	json_key(json, "members");
	json_string(json, members->bytes, members->length);
	write_extremes(&group->time, rank_time_divisor("time/ms"), json);
	json_key_array(json, "rows");
	/* With one group, these are the rows of the job. */
	if (report->groups->count > 1 && group->count > 1) {
		rank_rows_of_group(&rows, report->profile, "time/ms", report->groups->of_row,
				   number);
		write_rows(report, &rows, json);
		rank_rows_fini(&rows);
	}
	json_end_array(json);
	json_end_object(json);
}

void rank_json_gates(const struct rank_report *report, struct json_writer *json)
{
	if (!report->gates)
		return;
	gate_write_json(json, report->gates, report->gate_count, report->tables[0].profile);
}

void rank_json(const void *context, struct out *out)
{
	const struct rank_report *report = context;
	struct json_writer json;
	struct out members;

	if (report->diffs) {
		rank_diff_json(report, out);
		return;
	}
	out_init(&members, -1);
	json_writer_init(&json, out, false);
	json_begin_object(&json);
	json_key_bool(&json, "partial", profile_is_partial(report->profile));
	json_key_bool(&json, "mixed", *ranks_info(report->profile, RANKS_MIXED));
	write_ranks(report, &json);
	json_key_array(&json, "rows");
	for (size_t i = 0; i < report->table_count; i++)
		write_rows(report, &report->tables[i], &json);
	json_end_array(&json);
	json_key_array(&json, "groups");
	for (uint32_t g = 0; g < report->groups->count && !out->errnum; g++)
		write_group(report, g, &members, &json);
	json_end_array(&json);
	wait_report_json(report->profile, &json);
	rank_json_gates(report, &json);
	json_end_object(&json);
	out_byte(out, '\n');
	out_fini(&members);
}
