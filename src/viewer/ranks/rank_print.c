/* Messages about ranks, and tables of --ranks: frames with their spread, ranks, and groups. */
#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"
#include "base/message.h"
#include "model/merge.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_report.h"
#include "viewer/viewer_options.h"

#define NAMED_MAX 5u      /* ranks in a message */
#define RANKS_DEFAULT 16u /* rows of the table of ranks, below other tables */
#define GROUPS_DEFAULT 8u /* groups that are printed */
#define GROUPS_FRAMES 4u  /* groups with their frames */
#define GROUP_ROWS 5u     /* frames of a group */
#define RANGES_MAX 6u     /* ranges of ranks in a row of groups */

/* ------------------------------------------------------------------ messages */

/* "killed: 3, 17, 18 and 4 more" */
static size_t report_of_state(const struct profile_ranks *ranks, uint32_t state)
{
	char text[256] = "";
	size_t used = 0, count = 0;

	for (size_t i = 0; i < ranks->count; i++) {
		if (ranks->rows[i].state != state)
			continue;
		if (count++ < NAMED_MAX)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u",
						 count > 1 ? ", " : "", ranks->rows[i].rank);
	}
	if (count > NAMED_MAX)
		snprintf(text + used, sizeof(text) - used, " and %zu more", count - NAMED_MAX);
	if (count)
		message("%zu rank%s %s: %s", count, count > 1 ? "s are" : " is",
			rank_state_name(state), text);
	return count;
}

/* Why ranks are damaged: the first few. */
static void report_reasons(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t count = 0;

	for (size_t i = 0; i < ranks->count && count < NAMED_MAX; i++) {
		const char *reason = profile_text(profile, ranks->rows[i].reason);

		if (!*reason)
			continue;
		message("rank %u: %s", ranks->rows[i].rank, reason);
		count++;
	}
}

/* Versions differ in what they record: times are comparable, names may not be. */
static void report_versions(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	const struct row_rank *first = NULL;

	ARRAY_EACH(row, ranks->rows, ranks->count) {
		if (!row->version)
			continue;
		if (!first)
			first = row;
		if (row->version == first->version)
			continue;
		message("ranks were recorded by different versions of Proton: %s (rank %u) and %s "
			"(rank %u); frames may differ",
			profile_text(profile, first->version), first->rank,
			profile_text(profile, row->version), row->rank);
		return;
	}
}

bool rank_report_state(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t bad = 0;

	if (!ranks)
		return true;
	/* Duplicates are accepted already (rank_mix.c). */
	for (uint32_t state = RANK_KILLED; state <= RANK_MISSING; state++)
		bad += report_of_state(ranks, state);
	report_reasons(profile);
	report_versions(profile);
	for (uint32_t node = profile->nodes[0].first_child; node;
	     node = profile->nodes[node].next_sibling) {
		const struct row_frame *frame = &profile->frames[profile->nodes[node].frame];

		if (strcmp(profile_text(profile, frame->name), MERGE_OTHER) == 0)
			message("the limit of nodes is reached: names differ from rank to rank; "
				"the others are summed in " MERGE_OTHER
				"; name the parts that differ with --rank-names");
	}
	return bad == 0;
}

char *rank_path_for(const struct profile *profile, uint32_t node, const struct report *report)
{
	return rank_path(profile, node,
			 report->format == REPORT_TEXT ? report->options->style.names : NAMES_RAW);
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

#define NUMBERS RANK_NUMBERS /* in tables of frames and groups, after two other fields */

/* CSV has the titles of the first table only. */
static void write_frames(struct report *report, const struct rank_rows *rows, size_t limit,
			 bool is_first)
{
	static struct report_field fields[2 + NUMBERS] = {
		{.name = "path", .title = "frame", .place = 2}, {.name = "metric"}};

	memcpy(fields + 2, rank_number_fields, sizeof(rank_number_fields));
	if (is_first || report->format == REPORT_TEXT)
		report_begin(report, NULL, fields, ARRAY_LENGTH(fields));
	for (size_t i = 0; i < rows->count && i < limit && !report->out->errnum; i++) {
		AUTO_FREE char *path = rank_path_for(rows->profile, rows->items[i].node, report);
		struct report_value values[2 + NUMBERS] = {VALUE_TEXT(path),
							   VALUE_TEXT(rows->metric)};

		rank_numbers(&rows->items[i], values + 2);
		report_row(report, values);
	}
}

static void write_tables(const struct rank_report *view, struct report *report)
{
	bool is_text = report->format == REPORT_TEXT;

	for (size_t i = 0; i < view->table_count; i++) {
		if (is_text && !view->tables[i].count) /* the job has waiting alone */
			continue;
		if (is_text) {
			out_text(report->out, i ? "\n" : "");
			rank_print_about(view, view->tables[i].metric, report->out);
		}
		write_frames(report, &view->tables[i], report_rows(report, RANK_ROWS_DEFAULT),
			     i == 0);
	}
}

/* ------------------------------------------------------------------ ranks */

/* "8 ranks on 2 hosts: 7 finished, 1 killed; 1 with losses"; returns the mean time of the ranks. */
static double print_summary(const struct profile_ranks *ranks, struct out *out)
{
	size_t by_state[RANK_DUPLICATE + 1] = {0};
	uint32_t known;
	uint32_t *host_of = rank_hosts(ranks, &known);
	bool *has_profile = xcalloc(known, sizeof(*has_profile)); /* by host */
	struct rank_row time = {0};
	size_t hosts = 0, lossy = 0;
	const char *between = ": ";

	for (size_t i = 0; i < ranks->count; i++) {
		const struct row_rank *row = &ranks->rows[i];

		if (row->state <= RANK_DUPLICATE)
			by_state[row->state]++;
		if (row->state == RANK_FINISHED)
			rank_row_add(&time, row->rank, (double)row->time_ns);
		lossy += row->lost > 0;
		hosts += row->state != RANK_MISSING && !has_profile[host_of[i]];
		has_profile[host_of[i]] |= row->state != RANK_MISSING;
	}
	FREE_ALL(host_of, has_profile);
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

static bool has_problem(const struct row_rank *row)
{
	return row->state != RANK_FINISHED || row->lost;
}

/* Ranks with a problem are first, then the slowest; of equal ones the lower rank. */
ARRAY_ORDER(compare_order, struct row_rank *const,
	    ORDER_OF(has_problem(*b), has_problem(*a))
	    ?: (has_problem(*a) ? 0 : ORDER_OF((*b)->time_ns, (*a)->time_ns)) ?: ORDER_OF(*a, *b))

static const struct report_field rank_fields[] = {
	{.name = "rank", .title = "rank", .columns = 6},
	{.name = "state", .title = "state", .columns = -8},
	{.name = "host", .title = "host", .place = 1},
	{.name = "job"},
	{.name = "gpu", .title = "gpu", .place = 1},
	{.name = "attempt"},
	{.name = "time_ns", .title = "time", .columns = 10, .unit = REPORT_NS},
	{.title = "vs mean", .columns = 8, .unit = REPORT_SHARE, .has_sign = true},
	{.name = "kernels", .title = "kernels", .columns = 10},
	{.name = "lost", .title = "lost", .columns = 6},
	{.name = "version", .is_json_only = true},
	{.name = "reason", .is_json_only = true},
	{.name = "mixed", .is_json_only = true},
	{.name = "group"},
};

/* `mean`: the time that text compares with; 0: none. */
static void write_rank(const struct rank_report *view, const struct row_rank *row, double mean,
		       struct report *report)
{
	const struct profile *profile = view->profile;
	uint32_t group = view->groups->of_row[row - profile->ranks->rows];
	const uint32_t notes[] = {row->version, row->reason, row->mixed};
	struct report_value values[ARRAY_LENGTH(rank_fields)] = {
		VALUE_COUNT(row->rank),
		VALUE_TEXT(rank_state_name(row->state)),
		VALUE_TEXT(profile_text(profile, row->host)),
		VALUE_TEXT(profile_text(profile, row->job)),
		VALUE_TEXT(profile_text(profile, row->gpu)),
		VALUE_COUNT(row->attempt),
		VALUE_COUNT(row->time_ns),
		row->state == RANK_FINISHED && mean > 0
			? VALUE_NUMBER((double)row->time_ns / mean - 1)
			: VALUE_NONE,
		VALUE_COUNT(row->kernels),
		VALUE_COUNT(row->lost),
	};

	for (size_t i = 0; i < ARRAY_LENGTH(notes); i++)
		if (notes[i])
			values[10 + i] = VALUE_TEXT(profile_text(profile, notes[i]));
	if (group != RANK_GROUP_NONE)
		values[13] = VALUE_COUNT(group + 1);
	report_row(report, values);
}

static void write_ranks(const struct rank_report *view, struct report *report)
{
	const struct profile_ranks *ranks = view->profile->ranks;

	report_begin(report, "ranks", rank_fields, ARRAY_LENGTH(rank_fields));
	for (size_t i = 0; ranks && i < ranks->count && !report->out->errnum; i++)
		write_rank(view, &ranks->rows[i], 0, report);
	report_end(report);
}

/* Half of the rows for ranks with a problem and the slowest ones, half for the fastest. */
static void print_ranks(const struct rank_report *view, size_t limit, struct report *report)
{
	const struct profile_ranks *ranks = view->profile->ranks;
	double mean = print_summary(ranks, report->out);
	size_t count = ranks->count;
	size_t start = count > limit ? (limit + 1) / 2 : count;
	size_t end = count > limit ? count - limit / 2 : count;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	const struct row_rank **list = xcalloc(count + 1, sizeof(*list));

	for (size_t i = 0; i < count; i++)
		list[i] = &ranks->rows[i];
	if (count > limit)
		ARRAY_SORT(list, count, compare_order);
	report_begin(report, NULL, rank_fields, ARRAY_LENGTH(rank_fields));
	for (size_t i = 0; i < count; i++) {
		if (i == start)
			out_printf(report->out, "%7s  %zu more; --ranks=ranks prints all\n", "...",
				   end - start);
		if (i < start || i >= end)
			write_rank(view, list[i], mean, report);
	}
	free(list);
}

/* ------------------------------------------------------------------ rows in JSON */

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

void rank_row_json(const struct rank_row *row, const char *suffix, struct json_writer *json)
{
	struct report_value values[NUMBERS];

	rank_numbers(row, values);
	for (enum rank_number i = 0; i < NUMBERS; i++) {
		const struct report_field *field = &rank_number_fields[i];
		char key[24];

		snprintf(key, sizeof(key), "%s%s", i == RANK_COULD_GO ? "saving" : field->name,
			 field->unit == REPORT_VALUE ? suffix : "");
		if (values[i].type == REPORT_COUNT)
			json_key_uint64(json, key, values[i].as.count);
		else
			json_key_double(json, key, values[i].as.number);
	}
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
	size_t limit = report_rows(report, SIZE_MAX);
	double divisor = rank_time_divisor(rows->metric);

	for (size_t i = 0; i < rows->count && i < limit && !json->out->errnum; i++) {
		const struct rank_row *row = &rows->items[i];
		AUTO_FREE char *path = rank_path(rows->profile, row->node, NAMES_RAW);

		json_line_break(json);
		json_begin_object(json);
		json_key_text(json, "path", path);
		json_key_text(json, "metric", divisor > 0 ? "time" : rows->metric);
		if (divisor > 0)
			write_times(row, divisor, json);
		else
			rank_row_json(row, "", json);
		json_end_object(json);
	}
}

/* ------------------------------------------------------------------ groups */

static void json_group(const struct rank_report *view, uint32_t number, const char *shape,
		       const struct out *members, struct report *report)
{
	const struct rank_group *group = &view->groups->items[number];
	struct json_writer *json = &report->json;
	struct rank_rows rows;

	json_line_break(json);
	json_begin_object(json);
	json_key_uint64(json, "group", number + 1);
	json_key_text(json, "shape", shape);
	json_key_string(json, "members", members->bytes, members->length);
	write_times(&group->time, 1e6, json);
	json_key_array(json, "rows");
	/* With one group, these are the rows of the job. */
	if (view->groups->count > 1 && group->count > 1) {
		rank_rows_of_group(&rows, view->profile, view->groups->of_row, number);
		write_rows(&rows, report);
		rank_rows_fini(&rows);
	}
	json_end_array(json);
	json_end_object(json);
}

static void write_groups(const struct rank_report *view, size_t limit, struct report *report)
{
	static struct report_field fields[3 + NUMBERS] = {
		{.name = "group", .title = "group", .columns = 5}, {.name = "shape"}};
	size_t ranges = report->format == REPORT_TEXT ? RANGES_MAX : 0;
	struct report_value values[3 + NUMBERS];
	AT_END(out_fini) struct out members;
	char shape[24];

	memcpy(fields + 2, rank_number_fields, sizeof(rank_number_fields));
	fields[2 + NUMBERS] =
		(struct report_field){.name = "members", .title = "which", .place = 2};
	out_init(&members, -1);
	report_begin(report, "groups", fields, ARRAY_LENGTH(fields));
	for (uint32_t g = 0; g < view->groups->count && g < limit && !report->out->errnum; g++) {
		const struct rank_group *group = &view->groups->items[g];

		snprintf(shape, sizeof(shape), "%016" PRIx64, group->shape);
		members.length = 0;
		rank_groups_members(view->groups, view->profile, g, ranges, &members);
		if (report->format == REPORT_JSON) {
			json_group(view, g, shape, &members, report);
			continue;
		}
		values[0] = VALUE_COUNT(g + 1);
		values[1] = VALUE_TEXT(shape);
		rank_numbers(&group->time, values + 2);
		values[2 + NUMBERS] = report_string(members.bytes, members.length);
		report_row(report, values);
	}
	report_end(report);
}

static void print_group_frames(const struct rank_report *view, uint32_t number,
			       struct report *report)
{
	AT_END(rank_rows_fini) struct rank_rows rows;

	rank_rows_of_group(&rows, view->profile, view->groups->of_row, number);
	if (rows.count) {
		out_printf(report->out, "\ngroup %u: ranks ", number + 1);
		rank_groups_members(view->groups, view->profile, number, RANGES_MAX, report->out);
		out_text(report->out, "\n\n");
		write_frames(report, &rows, report_rows(report, GROUP_ROWS), true);
	}
}

/* Times of groups are in ms. */
static void print_groups(const struct rank_report *view, size_t limit, struct report *report)
{
	const struct rank_groups *groups = view->groups;

	out_printf(report->out,
		   "%zu group%s of ranks with equal trees; times in ms, of all kernels\n\n",
		   groups->count, groups->count == 1 ? "" : "s");
	write_groups(view, limit, report);
	if (groups->count > limit)
		out_printf(report->out, "%6s  %zu more; --ranks=groups prints all\n", "...",
			   groups->count - limit);
	/* Groups of one rank have nothing to compare. */
	for (uint32_t g = 0; g < groups->count && g < GROUPS_FRAMES; g++)
		if (groups->items[g].count > 1)
			print_group_frames(view, g, report);
}

/* ------------------------------------------------------------------ all */

static void write_json(const struct rank_report *view, struct report *report)
{
	struct json_writer *json = &report->json;

	json_key_bool(json, "partial", profile_is_partial(view->profile));
	json_key_bool(json, "mixed", *profile_info_text(view->profile, RANKS_MIXED));
	write_ranks(view, report);
	json_key_array(json, "rows");
	for (size_t i = 0; i < view->table_count; i++)
		write_rows(&view->tables[i], report);
	json_end_array(json);
	write_groups(view, SIZE_MAX, report);
	wait_report_json(view->profile, json);
}

static void print_others(const struct rank_report *view, struct report *report)
{
	if (wait_report_is_there(view->profile)) {
		out_text(report->out, view->tables[0].count ? "\n" : "");
		wait_report_text(view->profile, report_rows(report, WAITS_DEFAULT),
				 report->options->style.names, report->out);
	}
	out_byte(report->out, '\n');
	print_ranks(view, report_rows(report, RANKS_DEFAULT), report);
	if (view->groups->count > 1) {
		out_byte(report->out, '\n');
		print_groups(view, report_rows(report, GROUPS_DEFAULT), report);
	}
}

void rank_write(const struct rank_report *view, struct report *report)
{
	enum ranks_table table = report->options->query.ranks_table;
	bool is_text = report->format == REPORT_TEXT;

	report->is_partial = profile_is_partial(view->profile);
	if (report->format == REPORT_JSON) {
		write_json(view, report);
	} else if (table == RANKS_RANKS) {
		if (is_text)
			print_ranks(view, report_rows(report, SIZE_MAX), report);
		else
			write_ranks(view, report);
	} else if (table == RANKS_GROUPS) {
		if (is_text)
			print_groups(view, report_rows(report, SIZE_MAX), report);
		else
			write_groups(view, SIZE_MAX, report);
	} else {
		write_tables(view, report);
		if (is_text && table == RANKS_ALL)
			print_others(view, report);
	}
}
