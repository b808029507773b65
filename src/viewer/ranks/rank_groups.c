/* Groups of ranks with equal trees. */
#include "viewer/ranks/rank_groups.h"

#include <stdlib.h>

#include "model/ranks.h"
#include "viewer/print/xalloc.h"

/* A rank and the hash of its tree. */
struct shaped {
	uint64_t shape;
	uint32_t row; /* in the table of ranks */
};

static int compare_shapes(const void *left, const void *right)
{
	const struct shaped *a = left;
	const struct shaped *b = right;

	if (a->shape != b->shape)
		return a->shape < b->shape ? -1 : 1;
	return (a->row > b->row) - (a->row < b->row);
}

/* Of groups of equal size, the one with the lowest rank comes first. */
static int compare_groups(const void *left, const void *right)
{
	const struct rank_group *a = left;
	const struct rank_group *b = right;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return (a->lowest > b->lowest) - (a->lowest < b->lowest);
}

/* Finished ranks by shape, malloc'd. */
static struct shaped *list_shapes(const struct profile_ranks *ranks, size_t *count_out)
{
	struct shaped *list = xcalloc(ranks->count + 1, sizeof(*list));
	size_t count = 0;

	for (size_t i = 0; i < ranks->count; i++)
		if (ranks->rows[i].state == RANK_FINISHED)
			list[count++] = (struct shaped){ranks->rows[i].shape, (uint32_t)i};
	if (count)
		qsort(list, count, sizeof(*list), compare_shapes);
	*count_out = count;
	return list;
}

/* Makes the groups of a sorted list. */
static void make_groups(struct rank_groups *groups, const struct profile_ranks *ranks,
			const struct shaped *list, size_t count, double divisor)
{
	groups->items = xcalloc(count + 1, sizeof(*groups->items));
	for (size_t i = 0; i < count; i++) {
		const struct row_rank *row = &ranks->rows[list[i].row];
		struct rank_group *group;

		if (!i || list[i].shape != list[i - 1].shape)
			groups->items[groups->count++] = (struct rank_group){
				.shape = list[i].shape, .start = i, .lowest = list[i].row};
		group = &groups->items[groups->count - 1];
		group->count++;
		rank_row_add(&group->time, row->rank, (double)row->time_ns / divisor);
	}
	if (groups->count)
		qsort(groups->items, groups->count, sizeof(*groups->items), compare_groups);
}

void rank_groups_init(struct rank_groups *groups, const struct profile *profile, const char *metric)
{
	const struct profile_ranks *ranks = profile->ranks;
	struct shaped *list;
	size_t count;

	*groups = (struct rank_groups){0};
	if (!ranks)
		return;
	list = list_shapes(ranks, &count);
	make_groups(groups, ranks, list, count, rank_time_divisor(metric));
	groups->rows = xcalloc(count + 1, sizeof(*groups->rows));
	groups->of_row = xcalloc(ranks->count + 1, sizeof(*groups->of_row));
	for (size_t i = 0; i < count; i++)
		groups->rows[i] = list[i].row;
	for (size_t i = 0; i < ranks->count; i++)
		groups->of_row[i] = RANK_GROUP_NONE;
	for (uint32_t g = 0; g < groups->count; g++)
		for (size_t i = 0; i < groups->items[g].count; i++)
			groups->of_row[groups->rows[groups->items[g].start + i]] = g;
	free(list);
}

void rank_groups_fini(struct rank_groups *groups)
{
	free(groups->items);
	free(groups->rows);
	free(groups->of_row);
	*groups = (struct rank_groups){0};
}

void rank_groups_members(const struct rank_groups *groups, const struct profile *profile,
			 uint32_t number, size_t ranges, struct out *out)
{
	const struct row_rank *rows = profile->ranks->rows;
	const struct rank_group *group = &groups->items[number];
	const uint32_t *members = groups->rows + group->start;
	size_t written = 0;

	for (size_t i = 0; i < group->count; i++) {
		uint32_t first = rows[members[i]].rank;
		uint32_t last = first;

		while (i + 1 < group->count && rows[members[i + 1]].rank <= last + 1)
			last = rows[members[++i]].rank;
		if (ranges && written == ranges) {
			out_text(out, ", ...");
			return;
		}
		out_printf(out, "%s%u", written++ ? ", " : "", first);
		if (last != first)
			out_printf(out, "-%u", last);
	}
}
