/* The ranks of a job in a table that was made from its tree. */
#include "viewer/ranks/rank_turn.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/message.h"
#include "model/clamped.h"
#include "model/ranks.h"
#include "model/regroup.h"
#include "viewer/print/xalloc.h"

#define BLOCK_RANKS 8u

/* A node with kernels, or a node directly below one: its time is subtracted there. */
struct timed {
	uint32_t node;
	uint32_t above; /* entry with kernels; PLACE_NONE: none */
	bool is_own;    /* it has kernels */
};

struct kept {
	struct rank_kept base;
	struct timed *entries;
	struct profile job; /* only `ranks`, if it is a merged file, by the nodes of that file */
	struct rank_path *paths; /* if the job was merged just now */
	struct rank_times times;
	uint32_t *ranks; /* by number of a rank in that file */
};

static struct timed *list_timed(const struct profile *job, size_t *count_out)
{
	struct timed *list = xcalloc(job->node_count, sizeof(*list));
	uint32_t *entry_of = xcalloc(job->node_count, sizeof(*entry_of));
	uint64_t kernels;
	uint64_t *times = ranks_times(job, &kernels);

	if (!times)
		xgive_up();
	*count_out = 0;
	for (uint32_t i = 0; i < job->node_count; i++) {
		const struct profile_node *node = &job->nodes[i];
		uint32_t above = i && job->nodes[node->parent].first_kernel ? entry_of[node->parent]
									    : 0;

		if (!times[i] || (!node->first_kernel && !above))
			continue;
		list[(*count_out)++] = (struct timed){i, above - 1, node->first_kernel != 0};
		entry_of[i] = (uint32_t)*count_out;
	}
	free(entry_of);
	free(times);
	return list;
}

static void kept_free(struct rank_kept *base)
{
	struct kept *kept = (struct kept *)base;

	ranks_free(kept->job.ranks);
	rank_times_fini(&kept->times);
	FREE_ALL(kept->base.places, kept->entries, kept->paths, kept->ranks, kept);
}

static struct kept *new_kept(const struct profile *job)
{
	struct kept *kept = xcalloc(1, sizeof(*kept));

	kept->base.free = kept_free;
	kept->entries = list_timed(job, &kept->base.count);
	kept->base.places = xcalloc(kept->base.count, sizeof(*kept->base.places));
	for (size_t i = 0; i < kept->base.count; i++)
		kept->base.places[i] = kept->entries[i].node;
	kept->times = RANK_TIMES_NONE;
	return kept;
}

void rank_turn_keep(struct profile *merged, struct rank_times *times)
{
	struct profile_ranks *ranks = merged->ranks;
	struct kept *kept = new_kept(merged);

	kept->paths = rank_paths_of(merged, kept->base.places, kept->base.count);
	kept->ranks = xcalloc(ranks->count, sizeof(*kept->ranks));
	for (size_t r = 0; r < ranks->count; r++)
		if (ranks->rows[r].state != RANK_MISSING && ranks->rows[r].number < ranks->count)
			kept->ranks[ranks->rows[r].number] = ranks->rows[r].rank;
	kept->times = *times;
	*times = RANK_TIMES_NONE;
	ranks->kept = &kept->base;
}

void rank_turn_begin(struct profile *job)
{
	struct kept *kept = job->ranks->kept ? NULL : new_kept(job);

	if (!kept)
		return;
	kept->job.ranks = job->ranks;
	job->ranks = NULL;
	if (!ranks_of(job))
		xgive_up();
	job->ranks->kept = &kept->base;
}

/* ------------------------------------------------------------------ adding up */

struct turn {
	const struct kept *kept;
	const struct profile *job; /* without `ranks` if the job was merged just now */
	struct profile *turned;
	const struct timed *entries;
	size_t count;
	uint32_t *places;           /* by entry: node of `turned`; PLACE_NONE: it is not there */
	struct row_spread *spreads; /* by node of `turned` */
	/* If times of single ranks are not known: */
	size_t present;   /* ranks with a profile */
	bool *is_vague;   /* by node of `turned` */
	uint32_t *source; /* entry that has the statistics of a node, + 1; 0: none */
};

static uint32_t rank_at(const struct turn *turn, size_t number)
{
	return turn->job->ranks ? turn->job->ranks->rows[number].rank : turn->kept->ranks[number];
}

/* Adds the times of up to BLOCK_RANKS ranks, which share a cache line, to `sums` by node. */
static void sum_block(const struct turn *turn, const uint64_t *times, size_t stride, size_t ranks,
		      uint64_t (*sums)[BLOCK_RANKS])
{
	memset(sums, 0, turn->turned->node_count * sizeof(*sums));
	for (size_t e = 0; e < turn->count; e++) {
		uint32_t above = turn->entries[e].above;
		const uint64_t *from = times + e * stride;
		uint64_t *to = turn->places[e] == PLACE_NONE ? NULL : sums[turn->places[e]];

		for (size_t r = 0; to && r < ranks; r++)
			to[r] = clamped_u64(to[r], from[r]);
		to = above == PLACE_NONE || turn->places[above] == PLACE_NONE
			     ? NULL
			     : sums[turn->places[above]];
		for (size_t r = 0; to && r < ranks; r++)
			to[r] -= from[r] < to[r] ? from[r] : to[r];
	}
	for (size_t n = turn->turned->node_count; n-- > 1;) {
		uint64_t *to = sums[turn->turned->nodes[n].parent];

		for (size_t r = 0; r < ranks; r++)
			to[r] = clamped_u64(to[r], sums[n][r]);
	}
}

/* A rank_times_use: the time of a node of the table includes its frames and the nodes below. */
static void add_times(void *context, size_t first, size_t ranks, const uint64_t *times)
{
	struct turn *turn = context;
	size_t nodes = turn->turned->node_count;
	uint64_t(*sums)[BLOCK_RANKS] = xcalloc(nodes, sizeof(*sums));

	for (size_t at = 0; at < ranks; at += BLOCK_RANKS) {
		size_t count = ranks - at < BLOCK_RANKS ? ranks - at : BLOCK_RANKS;

		sum_block(turn, times + at, ranks, count, sums);
		for (size_t n = 0; n < nodes; n++)
			for (size_t r = 0; r < count; r++)
				if (sums[n][r])
					spread_add(&turn->spreads[n], sums[n][r],
						   rank_at(turn, first + at + r));
	}
	free(sums);
}

/* ------------------------------------------------------------------ merged files */

/* The time of each rank that has one; 0: they differ, or only some ranks have it. */
static uint64_t equal_time(const struct turn *turn, uint32_t node)
{
	const struct row_spread *spread = ranks_spread(turn->job, node);

	return spread && spread->min_ns == spread->max_ns && spread->ranks == turn->present
		       ? spread->min_ns
		       : 0;
}

static void add_columns(struct turn *turn)
{
	const struct profile_ranks *ranks = turn->job->ranks;
	uint64_t *times = xcalloc(turn->count, BLOCK_RANKS * sizeof(*times));

	for (size_t first = 0; first < ranks->count; first += BLOCK_RANKS) {
		size_t count = ranks->count - first < BLOCK_RANKS ? ranks->count - first
								  : BLOCK_RANKS;

		for (size_t e = 0; e < turn->count; e++) {
			const uint64_t *column = ranks_column(turn->job, turn->entries[e].node);
			uint64_t equal = column ? 0 : equal_time(turn, turn->entries[e].node);

			for (size_t r = 0; r < count; r++)
				times[e * count + r] =
					column ? column[first + r]
					: ranks->rows[first + r].state != RANK_MISSING ? equal
										       : 0;
		}
		add_times(turn, first, count, times);
	}
	free(times);
}

/* Marks the nodes of which some time is not known, and the nodes that are one frame. */
static void find_vague(struct turn *turn)
{
	size_t nodes = turn->turned->node_count;
	uint32_t *frames = xcalloc(nodes, sizeof(*frames));

	for (uint32_t e = 0; e < turn->count; e++) {
		const struct timed *entry = &turn->entries[e];
		uint32_t place = turn->places[entry->is_own ? e : entry->above];
		bool is_known = ranks_column(turn->job, entry->node) ||
				equal_time(turn, entry->node);

		if (place != PLACE_NONE)
			turn->is_vague[place] |= !is_known;
		if (entry->above != PLACE_NONE && turn->places[entry->above] != PLACE_NONE) {
			turn->is_vague[turn->places[entry->above]] |= !is_known;
			frames[turn->places[entry->above]]++; /* it is a difference */
		}
		if (place != PLACE_NONE && entry->is_own && frames[place]++ == 0)
			turn->source[place] = e + 1;
	}
	for (size_t n = nodes; n-- > 1;) {
		uint32_t above = turn->turned->nodes[n].parent;

		turn->is_vague[above] |= turn->is_vague[n];
		if (frames[n] && !frames[above])
			turn->source[above] = turn->source[n];
		frames[above] += frames[n];
	}
	for (size_t n = 0; n < nodes; n++)
		if (frames[n] > 1)
			turn->source[n] = 0;
	free(frames);
}

/* True if all kernels of the job are in the table. */
static bool is_whole(const struct turn *turn)
{
	for (size_t e = 0; e < turn->count; e++)
		if (turn->entries[e].is_own && turn->places[e] == PLACE_NONE)
			return false;
	return true;
}

/* The statistics of a node of which single times are not known; NULL: they are not known, too. */
static const struct row_spread *spread_of_vague(const struct turn *turn, uint32_t node)
{
	uint32_t source = turn->source[node];

	return source                    ? ranks_spread(turn->job, turn->entries[source - 1].node)
	       : !node && is_whole(turn) ? ranks_spread(turn->job, 0)
					 : NULL;
}

/* ------------------------------------------------------------------ the whole */

static bool put_spreads(const struct turn *turn)
{
	bool is_known = true;

	for (uint32_t n = 0; n < turn->turned->node_count; n++) {
		const struct row_spread *spread = turn->is_vague[n] ? spread_of_vague(turn, n)
								    : &turn->spreads[n];
		struct row_spread copy;

		is_known &= spread != NULL;
		if (!spread || !spread->ranks)
			continue;
		copy = *spread;
		copy.node = n;
		ranks_put_spread(turn->turned, &copy);
	}
	return is_known;
}

/* By entry. True if kernels of one node are in several of the table. */
static bool map_places(struct turn *turn, const uint32_t *places)
{
	bool is_split = false;

	turn->places = xcalloc(turn->count, sizeof(*turn->places));
	for (size_t e = 0; e < turn->count; e++) {
		uint32_t place = turn->entries[e].is_own ? places[turn->kept->base.places[e]]
							 : PLACE_NONE;

		is_split |= place == PLACE_MANY;
		turn->places[e] = place == PLACE_MANY ? 0 : place;
	}
	return is_split;
}

bool rank_turn(struct profile *turned, const struct profile *job, const uint32_t *places)
{
	const struct kept *kept = (const struct kept *)job->ranks->kept;
	size_t nodes = turned->node_count;
	struct turn turn = {
		.kept = kept,
		.job = &kept->job,
		.turned = turned,
		.entries = kept->entries,
		.count = kept->base.count,
		.spreads = xcalloc(nodes, sizeof(*turn.spreads)),
		.is_vague = xcalloc(nodes, sizeof(*turn.is_vague)),
		.source = xcalloc(nodes, sizeof(*turn.source)),
	};
	bool is_split = map_places(&turn, places);
	struct proton_error err;
	bool is_known;

	for (size_t i = 0; kept->job.ranks && i < kept->job.ranks->count; i++)
		turn.present += kept->job.ranks->rows[i].state != RANK_MISSING;
	if (kept->job.ranks) {
		find_vague(&turn);
		add_columns(&turn);
	} else if (rank_times_read(&kept->times, kept->paths, turn.count, add_times, &turn, &err)) {
		message("%s", err.text);
	}
	/* Which rank used which of the devices is not known: only the sum of all is. */
	if (is_split)
		memset(turn.is_vague + 1, true, nodes - 1);
	is_known = put_spreads(&turn) || is_split;
	FREE_ALL(turn.places, turn.spreads, turn.is_vague, turn.source);
	return is_known;
}

struct reading {
	const struct kept *kept;
	size_t count; /* of paths */
	rank_turn_use *use;
	void *context;
};

static void pass_times(void *context, size_t first, size_t ranks, const uint64_t *times)
{
	const struct reading *reading = context;

	for (size_t p = 0; p < reading->count; p++)
		for (size_t r = 0; r < ranks; r++)
			reading->use(reading->context, p, reading->kept->ranks[first + r],
				     times[p * ranks + r]);
}

int rank_turn_times(const struct profile *job, const struct rank_path *paths, size_t count,
		    rank_turn_use *use, void *context, struct proton_error *err)
{
	const struct kept *kept = (const struct kept *)job->ranks->kept;
	struct reading reading = {kept, count, use, context};

	return rank_times_read(&kept->times, paths, count, pass_times, &reading, err);
}
