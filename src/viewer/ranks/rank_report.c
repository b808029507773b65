/* Messages and tables about the ranks of a merged job. */
#include "viewer/ranks/rank_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "format/json_write.h"
#include "model/merge.h"
#include "model/ranks.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"

#define ROWS_DEFAULT 30u
#define NAMED_MAX 5u

static const char *const states[] = {
	[RANK_FINISHED] = "finished",
	[RANK_KILLED] = "killed",
	[RANK_DAMAGED] = "damaged",
	[RANK_MISSING] = "missing",
};

static const char *state_name(uint32_t state)
{
	return state >= RANK_FINISHED && state <= RANK_MISSING ? states[state] : "unknown";
}

/* "killed: 3, 17, 18 and 4 more" */
static size_t report_of_state(const struct profile_ranks *ranks, uint32_t state)
{
	char text[256] = "";
	size_t used = 0;
	size_t count = 0;

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
		message("%zu rank%s %s: %s", count, count > 1 ? "s are" : " is", state_name(state),
			text);
	return count;
}

bool rank_report_state(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t bad = 0;

	if (!ranks)
		return true;
	for (uint32_t state = RANK_KILLED; state <= RANK_MISSING; state++)
		bad += report_of_state(ranks, state);
	for (uint32_t node = profile->nodes[0].first_child; node;
	     node = profile->nodes[node].next_sibling) {
		const struct profile_frame *frame = &profile->frames[profile->nodes[node].frame];

		if (strcmp(profile_text(profile, frame->name), MERGE_OTHER) == 0)
			message("the limit of nodes is reached: names differ from rank to rank; "
				"the others are summed in " MERGE_OTHER);
	}
	return bad == 0;
}

/* ------------------------------------------------------------------ spreads */

static double mean_of(const struct row_spread *spread)
{
	return (double)spread->sum_ns / spread->ranks;
}

/* Time of all ranks that is above the mean of the slowest one. */
static double saving_of(const struct row_spread *spread)
{
	return ((double)spread->max_ns - mean_of(spread)) * spread->ranks;
}

static int compare_savings(const void *a, const void *b)
{
	const struct row_spread *left = *(const struct row_spread *const *)a;
	const struct row_spread *right = *(const struct row_spread *const *)b;
	double x = saving_of(left);
	double y = saving_of(right);

	if (x != y)
		return x > y ? -1 : 1;
	return (left->node > right->node) - (left->node < right->node);
}

/* Sorted; malloc'd. */
static const struct row_spread **sorted(const struct profile *profile, size_t rows,
					size_t *count_out)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t count = ranks ? ranks->spread_count - 1 : 0;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	const struct row_spread **list = xcalloc(count + 1, sizeof(*list));

	for (size_t i = 0; i < count; i++)
		list[i] = &ranks->spreads[i + 1];
	/* NOLINTNEXTLINE(bugprone-sizeof-expression) */
	qsort(list, count, sizeof(*list), compare_savings);
	*count_out = rows && rows < count ? rows : count;
	return list;
}

/* The names from the root to a node, malloc'd. */
static char *path_of(const struct profile *profile, uint32_t node)
{
	char *path = xstrndup("", 0);

	do {
		size_t length = profile_frame_text(profile, profile->nodes[node].frame, NULL, 0);
		size_t rest = strlen(path);
		char *longer = xcalloc(length + rest + 4, 1);

		profile_frame_text(profile, profile->nodes[node].frame, longer, length + 1);
		if (rest) {
			memcpy(longer + length, " > ", 3);
			memcpy(longer + length + 3, path, rest);
		}
		free(path);
		path = longer;
		node = profile->nodes[node].parent;
	} while (node);
	return path;
}

static double percent_of(const struct row_spread *spread)
{
	return ((double)spread->max_ns / mean_of(spread) - 1) * 100;
}

void rank_report_table(const struct profile *profile, size_t rows, struct out *out)
{
	size_t count;
	const struct row_spread **list = sorted(profile, rows ? rows : ROWS_DEFAULT, &count);
	size_t ranks = profile->ranks ? profile->ranks->count : 0;

	out_printf(out,
		   "%zu rank%s; times in ms, of kernels below each frame; could go: all ranks as "
		   "fast as the mean\n\n",
		   ranks, ranks == 1 ? "" : "s");
	out_printf(out, "%10s %10s %6s %10s %6s %9s %10s %6s  %s\n", "mean", "min", "rank", "max",
		   "rank", "imbalance", "could go", "ranks", "frame");
	for (size_t i = 0; i < count; i++) {
		const struct row_spread *spread = list[i];
		char *path = path_of(profile, spread->node);

		out_printf(out, "%10.3f %10.3f %6u %10.3f %6u %8.1f%% %10.3f %6u  ",
			   mean_of(spread) / 1e6, (double)spread->min_ns / 1e6, spread->min_rank,
			   (double)spread->max_ns / 1e6, spread->max_rank, percent_of(spread),
			   saving_of(spread) / 1e6, spread->ranks);
		text_clean(out, path, strlen(path));
		out_byte(out, '\n');
		free(path);
	}
	free(list);
}

/* ------------------------------------------------------------------ JSON */

static void write_ranks(const struct profile *profile, struct json_writer *json)
{
	const struct profile_ranks *ranks = profile->ranks;

	json_key_array(json, "ranks");
	for (size_t i = 0; ranks && i < ranks->count; i++) {
		const struct row_rank *row = &ranks->rows[i];

		json_line_break(json);
		json_begin_object(json);
		json_key_uint64(json, "rank", row->rank);
		json_key_text(json, "state", state_name(row->state));
		json_key_text(json, "host", profile_text(profile, row->host));
		json_key_text(json, "job", profile_text(profile, row->job));
		json_key_text(json, "gpu", profile_text(profile, row->gpu));
		json_key_uint64(json, "attempt", row->attempt);
		json_key_uint64(json, "time_ns", row->time_ns);
		json_key_uint64(json, "kernels", row->kernels);
		json_key_uint64(json, "lost", row->lost);
		json_end_object(json);
	}
	json_end_array(json);
}

static void write_spread(const struct profile *profile, const struct row_spread *spread,
			 struct json_writer *json)
{
	char *path = path_of(profile, spread->node);

	json_line_break(json);
	json_begin_object(json);
	json_key_text(json, "path", path);
	json_key_uint64(json, "ranks", spread->ranks);
	json_key_uint64(json, "sum_ns", spread->sum_ns);
	json_key_uint64(json, "min_ns", spread->min_ns);
	json_key_uint64(json, "min_rank", spread->min_rank);
	json_key_uint64(json, "max_ns", spread->max_ns);
	json_key_uint64(json, "max_rank", spread->max_rank);
	json_key_double(json, "imbalance", percent_of(spread) / 100);
	json_key_double(json, "saving_ns", saving_of(spread));
	json_key_array(json, "histogram");
	for (uint32_t i = 0; i < SPREAD_BUCKETS; i++)
		json_uint64(json, spread->bucket[i]);
	json_end_array(json);
	json_key_array(json, "top");
	for (uint32_t i = 0; i < SPREAD_TOP && spread->top_ns[i]; i++)
		json_uint64(json, spread->top_rank[i]);
	json_end_array(json);
	json_end_object(json);
	free(path);
}

void rank_report_json(const struct profile *profile, size_t rows, struct out *out)
{
	struct json_writer json;
	size_t count;
	const struct row_spread **list = sorted(profile, rows, &count);

	json_writer_init(&json, out, false);
	json_begin_object(&json);
	json_key_bool(&json, "partial", profile_is_partial(profile));
	write_ranks(profile, &json);
	json_key_array(&json, "rows");
	for (size_t i = 0; i < count; i++)
		write_spread(profile, list[i], &json);
	json_end_array(&json);
	json_end_object(&json);
	out_byte(out, '\n');
	free(list);
}
