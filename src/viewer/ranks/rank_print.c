/* --ranks as text: frames with their spread over the ranks, ranks, and groups of ranks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/ranks.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_diff.h"
#include "viewer/ranks/wait_report.h"

#define WAITS_DEFAULT 10u
#define RANKS_DEFAULT 16u /* rows of the table of ranks, below other tables */
#define GROUPS_DEFAULT 8u /* groups that are printed */
#define GROUPS_FRAMES 4u  /* groups with their frames */
#define GROUP_ROWS 5u     /* frames of a group */
#define RANGES_MAX 6u     /* ranges of ranks in a row of groups */

void rank_print_value(struct out *out, double value)
{
	if (fabs(value) < 1e6)
		out_printf(out, " %10.3f", value);
	else
		out_printf(out, " %10.4g", value);
}

/* ------------------------------------------------------------------ frames */

void rank_print_about(const struct rank_report *report, const char *metric, struct out *out)
{
	const struct profile_ranks *ranks = report->profile->ranks;
	size_t count = ranks ? ranks->count : 0;

	out_printf(out, "%zu rank%s; ", count, count == 1 ? "" : "s");
	if (rank_time_divisor(metric) > 0)
		out_printf(out,
			   "times in %s, of kernels below each frame; could go: all ranks as fast "
			   "as the mean\n\n",
			   strchr(metric, '/') + 1);
	else
		out_printf(out, "%s; could go: no rank above the mean\n\n", metric);
}

static void put_text(struct out *out, const char *text)
{
	text_clean(out, text, strlen(text));
}

static void print_numbers(const struct rank_row *row, struct out *out)
{
	rank_print_value(out, rank_row_mean(row));
	rank_print_value(out, row->min);
	out_printf(out, " %6u", row->min_rank);
	rank_print_value(out, row->max);
	out_printf(out, " %6u %8.1f%%", row->max_rank, 100 * rank_row_imbalance(row));
	rank_print_value(out, rank_row_saving(row));
}

#define NUMBERS_HEAD "%11s %10s %6s %10s %6s %9s %10s"
#define NUMBERS "mean", "min", "rank", "max", "rank", "imbalance", "could go"

static void print_frames(const struct rank_rows *rows, size_t limit, enum name_style names,
			 struct out *out)
{
	out_printf(out, NUMBERS_HEAD " %6s  %s\n", NUMBERS, "ranks", "frame");
	for (size_t i = 0; i < rows->count && i < limit; i++) {
		char *path = rank_path_named(rows->profile, rows->items[i].node, names);

		print_numbers(&rows->items[i], out);
		out_printf(out, " %6u  ", rows->items[i].ranks);
		put_text(out, path);
		out_byte(out, '\n');
		free(path);
	}
}

/* ------------------------------------------------------------------ ranks */

static int compare_ids(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left;
	uint32_t b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

static size_t count_hosts(const struct profile_ranks *ranks)
{
	uint32_t *hosts = xcalloc(ranks->count + 1, sizeof(*hosts));
	size_t known = 0;
	size_t count = 0;

	for (size_t i = 0; i < ranks->count; i++)
		if (ranks->rows[i].state != RANK_MISSING)
			hosts[known++] = ranks->rows[i].host;
	if (known)
		qsort(hosts, known, sizeof(*hosts), compare_ids);
	for (size_t i = 0; i < known; i++)
		count += !i || hosts[i] != hosts[i - 1];
	free(hosts);
	return count;
}

/* "8 ranks on 2 hosts: 7 finished, 1 killed; 1 with losses"; returns the mean time of the ranks. */
static double print_summary(const struct profile_ranks *ranks, struct out *out)
{
	size_t by_state[RANK_DUPLICATE + 1] = {0};
	size_t hosts = count_hosts(ranks);
	struct rank_row time = {0};
	size_t lossy = 0;
	const char *between = ": ";

	for (size_t i = 0; i < ranks->count; i++) {
		const struct row_rank *row = &ranks->rows[i];

		if (row->state <= RANK_DUPLICATE)
			by_state[row->state]++;
		if (row->state == RANK_FINISHED)
			rank_row_add(&time, row->rank, (double)row->time_ns);
		lossy += row->lost > 0;
	}
	out_printf(out, "%zu rank%s on %zu host%s", ranks->count, ranks->count == 1 ? "" : "s",
		   hosts, hosts == 1 ? "" : "s");
	for (uint32_t state = RANK_FINISHED; state <= RANK_DUPLICATE; state++) {
		if (!by_state[state])
			continue;
		out_printf(out, "%s%zu %s", between, by_state[state], rank_state_name(state));
		between = ", ";
	}
	if (lossy)
		out_printf(out, "; %zu with losses", lossy);
	out_text(out, "; times in ms\n\n");
	return time.ranks ? rank_row_mean(&time) : 0;
}

/* Ranks with a problem are first, then the slowest; of equal ones the lower rank. */
static int compare_order(const void *left, const void *right)
{
	const struct row_rank *a = *(const struct row_rank *const *)left;
	const struct row_rank *b = *(const struct row_rank *const *)right;
	bool is_a_bad = a->state != RANK_FINISHED || a->lost;
	bool is_b_bad = b->state != RANK_FINISHED || b->lost;

	if (is_a_bad != is_b_bad)
		return is_a_bad ? -1 : 1;
	if (!is_a_bad && a->time_ns != b->time_ns)
		return a->time_ns > b->time_ns ? -1 : 1;
	return (a > b) - (a < b);
}

static void print_rank(const struct profile *profile, const struct row_rank *row, double mean,
		       struct out *out)
{
	const uint32_t texts[] = {row->host, row->gpu};
	char change[16] = "";

	if (row->state == RANK_FINISHED && mean > 0)
		snprintf(change, sizeof(change), "%+.1f%%",
			 100 * ((double)row->time_ns / mean - 1));
	out_printf(out, "%7u  %-8s", row->rank, rank_state_name(row->state));
	rank_print_value(out, (double)row->time_ns / 1e6);
	out_printf(out, " %8s %10" PRIu64 " %6" PRIu64, change, row->kernels, row->lost);
	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
		const char *text = profile_text(profile, texts[i]);

		out_text(out, *text ? "  " : "");
		put_text(out, text);
	}
	out_byte(out, '\n');
}

/* Half of the rows for ranks with a problem and the slowest ones, half for the fastest. */
static void print_ranks(const struct profile *profile, size_t limit, struct out *out)
{
	const struct profile_ranks *ranks = profile->ranks;
	double mean = print_summary(ranks, out);
	size_t count = ranks->count;
	size_t start = count > limit ? (limit + 1) / 2 : count;
	size_t end = count > limit ? count - limit / 2 : count;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	const struct row_rank **list = xcalloc(count + 1, sizeof(*list));

	for (size_t i = 0; i < count; i++)
		list[i] = &ranks->rows[i];
	if (count > limit) /* NOLINTNEXTLINE(bugprone-sizeof-expression) */
		qsort(list, count, sizeof(*list), compare_order);
	out_printf(out, "%7s  %-8s %10s %8s %10s %6s  %s\n", "rank", "state", "time", "vs mean",
		   "kernels", "lost", "host  gpu");
	for (size_t i = 0; i < count; i++) {
		if (i == start)
			out_printf(out, "%7s  %zu more; --ranks=ranks prints all\n", "...",
				   end - start);
		if (i < start || i >= end)
			print_rank(profile, list[i], mean, out);
	}
	free(list);
}

/* ------------------------------------------------------------------ groups */

static void print_group_row(const struct rank_report *report, uint32_t number, struct out *out)
{
	const struct rank_group *group = &report->groups->items[number];

	out_printf(out, "%6u", number + 1);
	print_numbers(&group->time, out);
	out_printf(out, " %6zu  ", group->count);
	rank_groups_members(report->groups, report->profile, number, RANGES_MAX, out);
	out_byte(out, '\n');
}

static void print_group_frames(const struct rank_report *report, uint32_t number, struct out *out)
{
	struct rank_rows rows;

	rank_rows_of_group(&rows, report->profile, "time/ms", report->groups->of_row, number);
	if (rows.count) {
		out_printf(out, "\ngroup %u: ranks ", number + 1);
		rank_groups_members(report->groups, report->profile, number, RANGES_MAX, out);
		out_text(out, "\n\n");
		print_frames(&rows, report->rows ? report->rows : GROUP_ROWS, report->names, out);
	}
	rank_rows_fini(&rows);
}

/* Times of groups are in ms. */
static void print_groups(const struct rank_report *report, size_t limit, struct out *out)
{
	const struct rank_groups *groups = report->groups;

	out_printf(out, "%zu group%s of ranks with equal trees; times in ms, of all kernels\n\n",
		   groups->count, groups->count == 1 ? "" : "s");
	out_printf(out, "%6s" NUMBERS_HEAD " %6s  %s\n", "group", NUMBERS, "ranks", "which");
	for (uint32_t g = 0; g < groups->count && g < limit; g++)
		print_group_row(report, g, out);
	if (groups->count > limit)
		out_printf(out, "%6s  %zu more; --ranks=groups prints all\n", "...",
			   groups->count - limit);
	/* Groups of one rank have nothing to compare. */
	for (uint32_t g = 0; g < groups->count && g < GROUPS_FRAMES; g++)
		if (groups->items[g].count > 1)
			print_group_frames(report, g, out);
}

/* ------------------------------------------------------------------ all */

void rank_print(const void *context, struct out *out)
{
	const struct rank_report *report = context;
	size_t limit = report->rows;

	if (report->diffs) {
		rank_diff_print(report, out);
		return;
	}
	if (report->table == RANKS_RANKS) {
		print_ranks(report->profile, limit ? limit : SIZE_MAX, out);
		return;
	}
	if (report->table == RANKS_GROUPS) {
		print_groups(report, limit ? limit : SIZE_MAX, out);
		return;
	}
	for (size_t i = 0; i < report->table_count; i++) {
		if (!report->tables[i].count) /* the job has waiting alone */
			continue;
		if (i)
			out_byte(out, '\n');
		rank_print_about(report, report->tables[i].metric, out);
		print_frames(&report->tables[i], limit ? limit : RANK_ROWS_DEFAULT, report->names,
			     out);
	}
	if (report->table == RANKS_FRAMES)
		return;
	if (wait_report_is_there(report->profile)) {
		if (report->tables[0].count)
			out_byte(out, '\n');
		wait_report_text(report->profile, limit ? limit : WAITS_DEFAULT, report->names,
				 out);
	}
	out_byte(out, '\n');
	print_ranks(report->profile, limit ? limit : RANKS_DEFAULT, out);
	if (report->groups->count > 1) {
		out_byte(out, '\n');
		print_groups(report, limit ? limit : GROUPS_DEFAULT, out);
	}
}
