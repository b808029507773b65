/* The ranks of a job in a table that was made from its tree. */
#include "viewer/ranks/rank_columns.h"

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
	struct profile job;      /* only `ranks`, from before the tree was changed */
	struct rank_path *paths; /* if the job was merged just now */
	struct rank_times times;
	uint32_t *ranks; /* by number of a rank in that job */
};

static struct timed *list_timed(const struct profile *job, size_t *count_out)
{
	struct timed *list = xcalloc(job->node_count, sizeof(*list));
	AUTO_FREE uint32_t *entry_of = xcalloc(job->node_count, sizeof(*entry_of));
	uint64_t kernels;
	AUTO_FREE uint64_t *times = ranks_times(job, &kernels);

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
	struct rank_kept *base = job->ranks->kept;
	struct kept *kept = base ? (struct kept *)base : new_kept(job);

	job->ranks->kept = NULL;
	kept->job.ranks = job->ranks;
	job->ranks = NULL;
	if (!ranks_of(job))
		xgive_up();
	job->ranks->kept = &kept->base;
}

/* ------------------------------------------------------------------ what is known */

/* A node of which the times of each rank are added up. */
struct slot {
	uint32_t above; /* slot of the nearest such node above; PLACE_NONE: none */
	struct row_spread spread;
};

struct turn {
	const struct kept *kept;
	const struct profile *job;
	struct profile *turned;
	const struct timed *entries;
	size_t count;
	uint32_t *places; /* by entry: node of `turned`, later slot; PLACE_NONE: it is not there */
	size_t present;   /* ranks with a profile */
	bool is_split;    /* kernels of one node are in several of the table */
	bool is_whole;    /* all kernels of the job are in the table */
	/* By node of `turned`: */
	bool *is_vague;     /* some time of a single rank is not known */
	uint32_t *source;   /* entry that has the statistics of the node, + 1; 0: none */
	uint32_t *frames;   /* number of entries */
	uint32_t *only;     /* the node below that has them all, and so the same times; 0: none */
	uint32_t *slot_of;  /* the slot of the node or the nearest above */
	struct slot *slots; /* each after those above it */
	size_t slot_count;
};

/* The time of each rank that has one; 0: they differ, or only some ranks have it. */
static uint64_t equal_time(const struct turn *turn, uint32_t node)
{
	const struct row_spread *spread = ranks_spread(turn->job, node);

	return spread && spread->min_ns == spread->max_ns && spread->ranks == turn->present
		       ? spread->min_ns
		       : 0;
}

/* Counts the entries of each node of the table, and finds which have unknown times. */
static void find_frames(struct turn *turn)
{
	for (uint32_t e = 0; e < turn->count; e++) {
		const struct timed *entry = &turn->entries[e];
		uint32_t place = turn->places[entry->is_own ? e : entry->above];
		uint32_t above = entry->above == PLACE_NONE ? PLACE_NONE
							    : turn->places[entry->above];
		bool is_known = turn->kept->paths || ranks_column(turn->job, entry->node) ||
				equal_time(turn, entry->node);

		if (place != PLACE_NONE)
			turn->is_vague[place] |= !is_known;
		if (above != PLACE_NONE) {
			turn->is_vague[above] |= !is_known;
			turn->frames[above]++; /* it is a difference */
		}
		if (place != PLACE_NONE && entry->is_own && turn->frames[place]++ == 0)
			turn->source[place] = e + 1;
	}
}

/* A node has the entries of the nodes below it. Only the statistics of one entry are the node's. */
static void add_frames(struct turn *turn)
{
	size_t nodes = turn->turned->node_count;
	uint32_t *frames = turn->frames;

	for (uint32_t n = (uint32_t)nodes; n-- > 1;) {
		uint32_t above = turn->turned->nodes[n].parent;

		turn->is_vague[above] |= turn->is_vague[n];
		if (frames[n] && !frames[above])
			turn->source[above] = turn->source[n];
		frames[above] += frames[n];
	}
	for (uint32_t n = 1; n < nodes; n++)
		if (frames[n] && frames[n] == frames[turn->turned->nodes[n].parent])
			turn->only[turn->turned->nodes[n].parent] = n;
	for (size_t n = 0; n < nodes; n++)
		if (frames[n] > 1)
			turn->source[n] = 0;
}

/* Statistics of the job that are the same in a node of the table; NULL: there are none. */
static const struct row_spread *known_spread(const struct turn *turn, uint32_t node)
{
	uint32_t source = turn->source[node];

	return source                    ? ranks_spread(turn->job, turn->entries[source - 1].node)
	       : !node && turn->is_whole ? ranks_spread(turn->job, 0)
					 : NULL;
}

/* Makes slots for the nodes of which only the times of each rank tell the statistics. */
static void make_slots(struct turn *turn)
{
	size_t nodes = turn->turned->node_count;

	turn->slots = xcalloc(nodes, sizeof(*turn->slots));
	for (uint32_t n = 0; n < nodes; n++) {
		uint32_t above = n ? turn->slot_of[turn->turned->nodes[n].parent] : PLACE_NONE;

		turn->slot_of[n] = above;
		if (!turn->frames[n] || turn->is_vague[n] || turn->only[n] || known_spread(turn, n))
			continue;
		turn->slots[turn->slot_count].above = above;
		turn->slot_of[n] = (uint32_t)turn->slot_count++;
	}
	for (size_t e = 0; e < turn->count; e++)
		if (turn->places[e] != PLACE_NONE)
			turn->places[e] = turn->slot_of[turn->places[e]];
}

/* ------------------------------------------------------------------ adding up */

static uint32_t rank_at(const struct turn *turn, size_t number)
{
	return turn->kept->paths ? turn->kept->ranks[number] : turn->job->ranks->rows[number].rank;
}

/* Adds the times of up to BLOCK_RANKS ranks, which share a cache line, to `sums` by slot. */
static void sum_block(const struct turn *turn, const uint64_t *times, size_t stride, size_t ranks,
		      uint64_t (*sums)[BLOCK_RANKS])
{
	memset(sums, 0, turn->slot_count * sizeof(*sums));
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
	for (size_t s = turn->slot_count; s-- > 1;)
		for (size_t r = 0; turn->slots[s].above != PLACE_NONE && r < ranks; r++) {
			uint64_t *to = &sums[turn->slots[s].above][r];

			*to = clamped_u64(*to, sums[s][r]);
		}
}

/* A rank_times_use: the time of a node of the table includes its frames and the nodes below. */
static void add_times(void *context, size_t first, size_t ranks, const uint64_t *times)
{
	struct turn *turn = context;
	uint64_t(*sums)[BLOCK_RANKS] = xcalloc(turn->slot_count, sizeof(*sums));

	for (size_t at = 0; at < ranks; at += BLOCK_RANKS) {
		size_t count = ranks - at < BLOCK_RANKS ? ranks - at : BLOCK_RANKS;

		sum_block(turn, times + at, ranks, count, sums);
		for (size_t s = 0; s < turn->slot_count; s++)
			for (size_t r = 0; r < count; r++)
				if (sums[s][r])
					spread_add(&turn->slots[s].spread, sums[s][r],
						   rank_at(turn, first + at + r));
	}
	free(sums);
}

/* Adds the times of all ranks, which are columns of a merged file or equal. */
static void add_columns(struct turn *turn)
{
	const struct profile_ranks *ranks = turn->job->ranks;
	AUTO_FREE uint64_t *times = xcalloc(turn->count, BLOCK_RANKS * sizeof(*times));

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
}

/* ------------------------------------------------------------------ the whole */

static bool put_spreads(const struct turn *turn)
{
	bool is_known = true;

	for (uint32_t n = 0; n < turn->turned->node_count; n++) {
		const struct row_spread *spread = known_spread(turn, n);
		uint32_t same = n;

		if (!turn->frames[n])
			continue;
		while (!spread && turn->only[same])
			spread = known_spread(turn, same = turn->only[same]);
		if (!spread && !turn->is_vague[same])
			spread = &turn->slots[turn->slot_of[same]].spread;
		is_known &= spread != NULL;
		if (spread && spread->ranks)
			ranks_put_spread(turn->turned, n, spread);
	}
	return is_known;
}

static void map_places(struct turn *turn, const uint32_t *places)
{
	turn->is_whole = true;
	for (size_t e = 0; e < turn->count; e++) {
		uint32_t place = turn->entries[e].is_own ? places[turn->kept->base.places[e]]
							 : PLACE_NONE;

		turn->is_split |= place == PLACE_MANY;
		turn->is_whole &= !turn->entries[e].is_own || place != PLACE_NONE;
		turn->places[e] = place == PLACE_MANY ? 0 : place;
	}
}

bool rank_turn(struct profile *turned, const struct profile *job, const uint32_t *places)
{
	const struct kept *kept = (const struct kept *)job->ranks->kept;
	const struct profile_ranks *ranks = kept->job.ranks;
	size_t nodes = turned->node_count;
	uint32_t *numbers = xcalloc(4 * nodes + kept->base.count, sizeof(*numbers));
	struct turn turn = {
		.kept = kept,
		.job = &kept->job,
		.turned = turned,
		.entries = kept->entries,
		.count = kept->base.count,
		.is_vague = xcalloc(nodes, sizeof(*turn.is_vague)),
		.source = numbers,
		.frames = numbers + nodes,
		.only = numbers + 2 * nodes,
		.slot_of = numbers + 3 * nodes,
		.places = numbers + 4 * nodes,
	};
	struct proton_error err;

	map_places(&turn, places);
	for (size_t i = 0; i < ranks->count; i++)
		turn.present += ranks->rows[i].state != RANK_MISSING;
	find_frames(&turn);
	add_frames(&turn);
	/* Which rank used which of the devices is not known: only the sum of all is. */
	if (turn.is_split) {
		memset(turn.is_vague + 1, true, nodes - 1);
		memset(turn.only, 0, nodes * sizeof(*turn.only));
		memset(turn.source, 0, nodes * sizeof(*turn.source));
	}
	make_slots(&turn);
	if (turn.slot_count && !kept->paths)
		add_columns(&turn);
	else if (turn.slot_count &&
		 rank_times_read(&kept->times, kept->paths, turn.count, add_times, &turn, &err))
		message("%s", err.text);
	bool is_known = put_spreads(&turn) || turn.is_split;
	FREE_ALL(turn.is_vague, turn.slots, numbers);
	return is_known;
}

int rank_turn_columns(struct profile *job, const struct rank_path *paths, const uint32_t *nodes,
		      size_t count, struct proton_error *err)
{
	const struct kept *kept = (const struct kept *)job->ranks->kept;

	return rank_times_columns(&kept->times, job, paths, nodes, count, err);
}
