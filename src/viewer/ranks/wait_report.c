/* Reports of the waiting of ranks, with what the rank that came last did longer than others. */
#include "viewer/ranks/rank_report.h"

#include "base/array.h"
#include "model/ranks.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"

#define REASONS_MAX 3u

/* A node in which a rank is slower than the mean. */
struct reason {
	uint32_t node;
	uint64_t time_ns;
	uint64_t mean_ns;
};

ARRAY_ORDER(compare_waits, struct row_wait *const,
	    ORDER_OF((*b)->wait_ns, (*a)->wait_ns) ?: ORDER_OF((*a)->node, (*b)->node))

/* Contexts with occurrences of several ranks, sorted; malloc'd. */
static const struct row_wait **sort_waits(const struct profile *profile, size_t *count_out)
{
	const struct profile_waits *waits = profile->waits;
	size_t count = waits ? waits->count : 0;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	const struct row_wait **list = xcalloc(count + 1, sizeof(*list));

	*count_out = 0;
	for (size_t i = 0; i < count; i++)
		if (waits->series[i].row.occurrences)
			list[(*count_out)++] = &waits->series[i].row;
	ARRAY_SORT(list, *count_out, compare_waits);
	return list;
}

bool wait_report_is_there(const struct profile *profile)
{
	size_t count;

	free(sort_waits(profile, &count));
	return count > 0;
}

/* ------------------------------------------------------------------ reasons */

/* The time of a rank in and below a node, as far as the file has it; 0: not known. */
static uint64_t time_of(const struct profile *profile, const struct row_spread *spread,
			uint32_t rank)
{
	const uint64_t *column = ranks_column(profile, spread->node);
	const struct row_rank *row = ranks_row(profile, rank);

	if (column && row)
		return column[row - profile->ranks->rows];
	for (uint32_t i = 0; i < SPREAD_TOP && spread->top_ns[i]; i++)
		if (spread->top_rank[i] == rank)
			return spread->top_ns[i];
	return 0;
}

/* By node: true if it is a collective, or has one below it. */
static bool *with_collectives(const struct profile *profile)
{
	bool *has = xcalloc(profile->node_count + 1, sizeof(*has));

	for (size_t i = 0; i < profile->waits->count; i++)
		has[profile->waits->series[i].row.node] = true;
	for (size_t i = profile->node_count; i-- > 1;)
		if (has[i])
			has[profile->nodes[i].parent] = true;
	return has;
}

static void add_reason(struct reason *list, size_t *count, struct reason added)
{
	size_t at = *count < REASONS_MAX ? (*count)++ : REASONS_MAX;

	while (at && added.time_ns - added.mean_ns > list[at - 1].time_ns - list[at - 1].mean_ns) {
		if (at < REASONS_MAX)
			list[at] = list[at - 1];
		at--;
	}
	if (at < REASONS_MAX)
		list[at] = added;
}

/*
 * Nodes without children in which the rank takes longer than the mean. Scopes with a collective are
 * no evidence: all ranks leave them together. Differences of 1 % are noise.
 */
static size_t reasons_of(const struct profile *profile, uint32_t rank, struct reason *list)
{
	const struct profile_ranks *ranks = profile->ranks;
	AUTO_FREE bool *has = with_collectives(profile);
	size_t count = 0;

	for (size_t i = 1; ranks && i < ranks->spread_count; i++) {
		const struct row_spread *spread = &ranks->spreads[i];
		uint64_t mean = spread->ranks ? spread->sum_ns / spread->ranks : 0;
		uint64_t own = 0;

		if (!has[spread->node] && !profile->nodes[spread->node].first_child)
			own = time_of(profile, spread, rank);
		if (own > mean && own - mean > mean / 100)
			add_reason(list, &count, (struct reason){spread->node, own, mean});
	}
	/* Small differences are noise. */
	while (count > 1 && 10 * (list[count - 1].time_ns - list[count - 1].mean_ns) <
				    list[0].time_ns - list[0].mean_ns)
		count--;
	return count;
}

/* ------------------------------------------------------------------ text */

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}

static void put_text(struct out *out, const char *text)
{
	text_clean(out, text, strlen(text));
}

static void put_path(const struct profile *profile, uint32_t node, enum name_style names,
		     struct out *out)
{
	AUTO_FREE char *path = rank_path(profile, node, names);

	put_text(out, path);
}

/* "all_reduce below backward" */
static void put_place(const struct profile *profile, uint32_t node, enum name_style names,
		      struct out *out)
{
	uint32_t parent = profile->nodes[node].parent;
	AT_END(out_fini) struct out name;

	out_init(&name, -1);
	name_write_styled(&name, profile, profile->nodes[node].frame, NAME_FULL, names);
	text_clean(out, name.bytes, name.length);
	if (!parent)
		return;
	out_text(out, " below ");
	put_path(profile, parent, names, out);
}

static void put_reasons(const struct profile *profile, uint32_t rank, enum name_style names,
			struct out *out)
{
	struct reason list[REASONS_MAX];
	size_t count = reasons_of(profile, rank, list);

	for (size_t i = 0; i < count; i++) {
		out_printf(out, "  rank %u is above the mean in ", rank);
		put_path(profile, list[i].node, names, out);
		out_printf(out, ": %.3f ms, mean %.3f ms\n", (double)list[i].time_ns / 1e6,
			   (double)list[i].mean_ns / 1e6);
	}
}

static void put_last(const struct profile *profile, const struct row_wait *row, struct out *out)
{
	const struct row_rank *last = ranks_row(profile, row->top_rank[0]);
	const char *host = last ? profile_text(profile, last->host) : "";

	if (!row->top_count[0])
		return;
	out_printf(out, "; rank %u", row->top_rank[0]);
	if (*host) {
		out_text(out, " on host ");
		put_text(out, host);
	}
	out_printf(out, " came last in %.0f%% of %u", percent(row->top_count[0], row->top_of[0]),
		   row->top_of[0]);
	if (row->stride > 1)
		out_printf(out, ", one in %u of all", row->stride);
	out_printf(out, ", %.0f%% of the waiting", percent(row->top_ns[0], row->wait_ns));
}

void wait_report_text(const struct profile *profile, size_t limit, enum name_style names,
		      struct out *out)
{
	size_t count;
	const struct row_wait **list = sort_waits(profile, &count);

	out_text(out, "waiting in collectives: time above that of the rank that came last\n\n");
	for (size_t i = 0; i < count && i < limit; i++) {
		bool is_host = list[i]->flags & COLLECTIVE_HOST;

		out_printf(out, "ranks wait %.1f%% of the %s time in ",
			   percent(list[i]->wait_ns, list[i]->time_ns), is_host ? "run" : "kernel");
		put_place(profile, list[i]->node, names, out);
		put_last(profile, list[i], out);
		out_byte(out, '\n');
		put_reasons(profile, list[i]->top_rank[0], names, out);
	}
	if (count > limit)
		out_printf(out, "%zu more; --json has all\n", count - limit);
	if (count && list[0]->flags & COLLECTIVE_LIMITED)
		out_text(out,
			 "the waiting in further contexts or communicators is not known: a job "
			 "has at most 65,536\n");
	free(list);
}

/* ------------------------------------------------------------------ JSON */

static void write_last(const struct row_wait *row, struct json_writer *json)
{
	json_key_array(json, "last");
	for (uint32_t i = 0; i < WAIT_TOP && row->top_count[i]; i++) {
		json_begin_object(json);
		json_key_uint64(json, "rank", row->top_rank[i]);
		json_key_uint64(json, "count", row->top_count[i]);
		json_key_uint64(json, "of", row->top_of[i]);
		json_key_uint64(json, "wait_ns", row->top_ns[i]);
		json_end_object(json);
	}
	json_end_array(json);
}

void wait_report_json(const struct profile *profile, struct json_writer *json)
{
	size_t count;
	const struct row_wait **list = sort_waits(profile, &count);

	json_key_array(json, "waits");
	for (size_t i = 0; i < count; i++) {
		const struct row_wait *row = list[i];
		AUTO_FREE char *path = rank_path(profile, row->node, NAMES_RAW);

		json_line_break(json);
		json_begin_object(json);
		json_key_text(json, "path", path);
		json_key_text(json, "timed", row->flags & COLLECTIVE_HOST ? "host" : "kernel");
		json_key_uint64(json, "ranks", row->ranks);
		json_key_uint64(json, "groups", row->groups);
		json_key_uint64(json, "occurrences", row->occurrences);
		json_key_uint64(json, "one_in", row->stride);
		json_key_uint64(json, "total_ns", row->total_ns);
		json_key_uint64(json, "wait_ns", row->wait_ns);
		json_key_uint64(json, "time_ns", row->time_ns);
		write_last(row, json);
		json_end_object(json);
	}
	json_end_array(json);
	json_key_bool(json, "waits_limited", count && list[0]->flags & COLLECTIVE_LIMITED);
	free(list);
}
