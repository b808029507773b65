/* Ranks of a merged job: adding ranks and parts, loading. */
#include "model/ranks.h"

#include "base/array.h"
#include "format/rank.h"
#include "model/clamped.h"
#include "model/merge.h"
#include "model/profile.h"

#define BUCKET_FIRST_LOG2 9u
/* A damaged file may have any number of ranks: few of them do not make a million missing ones. */
#define WORLD_MAX (1u << 20)
#define WORLD_OF_FEW 100000u
#define WORLD_PER_RANK 16u

void ranks_free(struct profile_ranks *ranks)
{
	if (!ranks)
		return;
	hash_table_fini(&ranks->values.index);
	hash_table_fini(&ranks->column_index);
	rank_values_free(ranks->pending);
	if (ranks->kept)
		ranks->kept->free(ranks->kept);
	FREE_ALL(ranks->rows, ranks->spreads, ranks->spread_of_node, ranks->values.rows,
		 ranks->columns, ranks->cells, ranks);
}

struct profile_ranks *ranks_of(struct profile *profile)
{
	struct profile_ranks *ranks = profile->ranks;

	if (ranks)
		return ranks;
	ranks = calloc(1, sizeof(*ranks));
	if (ranks && !ARRAY_ADD(ranks->spreads, ranks->spread_count, (struct row_spread){0})) {
		free(ranks);
		ranks = NULL;
	}
	if (!ranks)
		profile->out_of_memory = true;
	profile->ranks = ranks;
	return ranks;
}

const struct row_spread *ranks_spread(const struct profile *profile, uint32_t node)
{
	const struct profile_ranks *ranks = profile->ranks;

	return ranks && node < ranks->node_capacity && ranks->spread_of_node[node]
		       ? &ranks->spreads[ranks->spread_of_node[node]]
		       : NULL;
}

const uint64_t *ranks_column(const struct profile *profile, uint32_t node)
{
	const struct profile_ranks *ranks = profile->ranks;

	uint32_t column = ranks ? hash_table_find(&ranks->column_index, hash_u64(node)) : 0;

	return column ? ranks->cells + (column - 1) * ranks->count : NULL;
}

bool ranks_index_columns(struct profile_ranks *ranks)
{
	hash_table_clear(&ranks->column_index);
	for (size_t i = 0; i < ranks->column_count; i++)
		if (!hash_table_add(&ranks->column_index, hash_u64(ranks->columns[i].node),
				    (uint32_t)i + 1))
			return false;
	return true;
}

const struct row_rank *ranks_row(const struct profile *profile, uint32_t rank)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t row = ARRAY_COUNT_BEFORE(ranks ? ranks->count : 0, i, ranks->rows[i].rank < rank);

	return ranks && row < ranks->count && ranks->rows[row].rank == rank ? &ranks->rows[row]
									    : NULL;
}

/* ------------------------------------------------------------------ spreads */

/* The spread of a node, made if necessary; NULL: out of memory. */
static struct row_spread *spread_at(struct profile *profile, uint32_t node)
{
	struct profile_ranks *ranks = profile->ranks;

	if (!array_reserve_zeros(&ranks->spread_of_node, &ranks->node_capacity, (size_t)node + 1,
				 sizeof(*ranks->spread_of_node))) {
		profile->out_of_memory = true;
		return NULL;
	}
	if (!ranks->spread_of_node[node]) {
		if (!ARRAY_ADD(ranks->spreads, ranks->spread_count,
			       (struct row_spread){.node = node})) {
			profile->out_of_memory = true;
			return NULL;
		}
		ranks->spread_of_node[node] = (uint32_t)ranks->spread_count - 1;
	}
	return &ranks->spreads[ranks->spread_of_node[node]];
}

/* Larger times first; of equal ones the lower rank. */
static bool is_before(uint64_t a_ns, uint32_t a_rank, uint64_t b_ns, uint32_t b_rank)
{
	return a_ns != b_ns ? a_ns > b_ns : a_rank < b_rank;
}

static inline void add_top(struct row_spread *spread, uint64_t time_ns, uint32_t rank)
{
	uint32_t at = SPREAD_TOP;

	while (at && is_before(time_ns, rank, spread->top_ns[at - 1], spread->top_rank[at - 1]))
		at--;
	if (at == SPREAD_TOP)
		return;
	for (uint32_t i = SPREAD_TOP - 1; i > at; i--) {
		spread->top_ns[i] = spread->top_ns[i - 1];
		spread->top_rank[i] = spread->top_rank[i - 1];
	}
	spread->top_ns[at] = time_ns;
	spread->top_rank[at] = rank;
}

static void add_extremes(struct row_spread *spread, uint64_t min_ns, uint32_t min_rank,
			 uint64_t max_ns, uint32_t max_rank)
{
	if (!spread->ranks || min_ns < spread->min_ns ||
	    (min_ns == spread->min_ns && min_rank < spread->min_rank)) {
		spread->min_ns = min_ns;
		spread->min_rank = min_rank;
	}
	if (!spread->ranks || is_before(max_ns, max_rank, spread->max_ns, spread->max_rank)) {
		spread->max_ns = max_ns;
		spread->max_rank = max_rank;
	}
}

static uint32_t bucket_of(uint64_t time_ns)
{
	uint32_t log2 = 63u - (uint32_t)__builtin_clzll(time_ns | 1);

	if (log2 < BUCKET_FIRST_LOG2)
		return 0;
	return log2 - BUCKET_FIRST_LOG2 < SPREAD_BUCKETS ? log2 - BUCKET_FIRST_LOG2
							 : SPREAD_BUCKETS - 1;
}

void spread_add(struct row_spread *spread, uint64_t time_ns, uint32_t rank)
{
	add_extremes(spread, time_ns, rank, time_ns, rank);
	spread->ranks++;
	spread->sum_ns = clamped_u64(spread->sum_ns, time_ns);
}

static void add_time(struct row_spread *spread, uint64_t time_ns, uint32_t rank)
{
	uint64_t us = time_ns / 1000;
	uint64_t square = us < UINT32_MAX ? us * us : UINT64_MAX;

	spread_add(spread, time_ns, rank);
	spread->squares = clamped_u64(spread->squares, square);
	spread->bucket[bucket_of(time_ns)]++;
	add_top(spread, time_ns, rank);
}

static void add_spread(struct row_spread *spread, const struct row_spread *from)
{
	add_extremes(spread, from->min_ns, from->min_rank, from->max_ns, from->max_rank);
	spread->ranks += from->ranks;
	spread->sum_ns = clamped_u64(spread->sum_ns, from->sum_ns);
	spread->squares = clamped_u64(spread->squares, from->squares);
	for (uint32_t i = 0; i < SPREAD_BUCKETS; i++)
		spread->bucket[i] += from->bucket[i];
	for (uint32_t i = 0; i < SPREAD_TOP && from->top_ns[i]; i++)
		add_top(spread, from->top_ns[i], from->top_rank[i]);
}

void ranks_put_spread(struct profile *profile, uint32_t node, const struct row_spread *spread)
{
	struct row_spread *to = ranks_of(profile) ? spread_at(profile, node) : NULL;

	if (!to)
		return;
	*to = *spread;
	to->node = node;
}

double spread_imbalance(const struct row_spread *spread)
{
	return (double)spread->max_ns * spread->ranks / (double)spread->sum_ns - 1;
}

/* ------------------------------------------------------------------ one rank */

static uint32_t number_of(const struct profile *profile, const char *key)
{
	uint32_t number = 0;

	rank_parse(profile_info_text(profile, key), &number);
	return number;
}

uint64_t *ranks_times(const struct profile *source, uint64_t *kernels_out)
{
	uint64_t *times = calloc(source->node_count, sizeof(*times));

	*kernels_out = 0;
	for (size_t i = source->node_count; times && i-- > 0;) {
		for (uint32_t k = source->nodes[i].first_kernel; k; k = source->kernels[k].next) {
			times[i] = clamped_u64(times[i], source->kernels[k].total_ns);
			*kernels_out = clamped_u64(*kernels_out, source->kernels[k].count);
		}
		if (i)
			times[source->nodes[i].parent] =
				clamped_u64(times[source->nodes[i].parent], times[i]);
	}
	return times;
}

/* Mixes without a key: the same in every process. */
static uint64_t mix_hashes(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ b * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;

	return x ^ x >> 32;
}

/* A hash of the frames of all paths, which does not depend on the order of nodes. */
static uint64_t shape_of(const struct profile *source)
{
	AUTO_FREE uint64_t *frames = malloc((source->frame_count + 1) * sizeof(*frames));
	AUTO_FREE uint64_t *hashes = calloc(source->node_count, sizeof(*hashes));
	uint64_t shape = 0;

	for (size_t i = 0; frames && i < source->frame_count; i++) {
		const struct row_frame *frame = &source->frames[i];

		frames[i] = mix_hashes(hash_stored(profile_text(source, frame->name),
						   string_length(&source->strings, frame->name)),
				       frame->line);
	}
	for (size_t i = 1; frames && hashes && i < source->node_count; i++) {
		const struct profile_node *node = &source->nodes[i];

		hashes[i] = mix_hashes(hashes[node->parent] + 1, frames[node->frame]);
		shape += hashes[i];
	}
	return shape;
}

/* The UUID of the first GPU that ran a kernel: with torchrun it is the local rank's. */
static const char *gpu_of_rank(const struct profile *source)
{
	for (size_t i = 0; i < source->info_count; i++) {
		const char *key = profile_text(source, source->info[i].key);
		size_t digits = strncmp(key, "gpu", 3) == 0 ? strspn(key + 3, "0123456789") : 0;

		if (digits && strcmp(key + 3 + digits, "_uuid") == 0)
			return profile_text(source, source->info[i].value);
	}
	return "";
}

/* The strings of a row, by number. */
#define ROW_TEXTS 8u

static uint32_t *text_of(struct row_rank *row, size_t number)
{
	uint32_t *const texts[ROW_TEXTS] = {&row->host,    &row->job,    &row->gpu,
					    &row->version, &row->reason, &row->launch,
					    &row->process, &row->mixed};

	return texts[number];
}

static struct row_rank describe(struct profile *target, const struct profile *source,
				const struct rank_origin *origin)
{
	struct row_rank row = {
		.rank = origin->rank,
		.state = source->is_damaged      ? RANK_DAMAGED
			 : source->is_unfinished ? RANK_KILLED
						 : RANK_FINISHED,
		.host = profile_add_text(target, profile_info_text(source, "host")),
		.job = profile_add_text(target, profile_info_text(source, "job")),
		.gpu = profile_add_text(target, gpu_of_rank(source)),
		.pid = source->pid,
		.attempt = number_of(source, "attempt"),
		.world = number_of(source, "world_size"),
		.shape = shape_of(source),
		.version = profile_add_text(target, profile_info_text(source, "version")),
		.reason = profile_add_text(target, origin->reason),
		.number = origin->number,
		.files = origin->files,
		.launch = profile_add_text(target, profile_info_text(source, "launch")),
		.process = profile_add_text(target, profile_info_text(source, "launcher")),
		.mixed = profile_add_text(target, origin->mixed),
		.flags = *profile_info_text(source, "rank") ? 0 : RANK_UNNAMED,
	};

	for (size_t i = 0; i < source->counter_count; i++)
		if (source->counters[i].is_loss)
			row.lost = clamped_u64(row.lost, source->counters[i].value);
	return row;
}

static void add_row(struct profile *target, struct row_rank row)
{
	struct profile_ranks *ranks = target->ranks;

	if (!ARRAY_ADD(ranks->rows, ranks->count, row))
		target->out_of_memory = true;
}

void ranks_note(struct profile *target, const struct profile *source,
		const struct rank_origin *origin)
{
	if (!target->out_of_memory && ranks_of(target))
		add_row(target, describe(target, source, origin));
}

/* The pending ranks, with space for one more. NULL: out of memory. */
static struct rank_values *pending_of(struct profile *target)
{
	struct profile_ranks *ranks = target->ranks;

	if (ranks->pending && ranks->pending->count == RANK_VALUES_MAX)
		ranks_settle(target, NULL, NULL);
	if (!ranks->pending)
		ranks->pending = calloc(1, sizeof(*ranks->pending));
	return ranks->pending;
}

void ranks_add(struct profile *target, const struct profile *source, const struct merge_maps *maps,
	       const struct rank_origin *origin)
{
	if (target->out_of_memory || !ranks_of(target))
		return;
	target->ranks->other = maps->other;
	struct row_rank row = describe(target, source, origin);
	uint64_t *times = ranks_times(source, &row.kernels);
	struct rank_values *pending = pending_of(target);
	if (!times || !pending || !rank_values_add(pending, target, source, maps, times, row.rank))
		target->out_of_memory = true;
	row.time_ns = times ? times[0] : 0;
	free(times);
	waits_add(target, source, maps, row.rank, row.time_ns);
	add_row(target, row);
}

/* Adds the times of a node by pending rank. */
static void settle_node(struct profile *target, uint32_t node, const uint64_t *times)
{
	const struct rank_values *pending = target->ranks->pending;
	struct row_spread *spread = NULL;

	if (target->ranks->other && node == target->ranks->other)
		return;
	for (size_t r = 0; r < pending->count; r++) {
		if (!times[r])
			continue;
		if (!spread && !(spread = spread_at(target, node)))
			return;
		add_time(spread, times[r], pending->rows[r].rank);
	}
}

void ranks_settle(struct profile *target, ranks_use_times *use, void *context)
{
	struct profile_ranks *ranks = target->ranks;
	struct rank_values *pending = ranks ? ranks->pending : NULL;
	struct rank_block block = {0};

	for (uint32_t node = 0; pending && node < target->node_count; node++) {
		const uint64_t *times = rank_values_numbers(pending, node, true, &block);

		if (use)
			use(context, node, times, pending->count);
		settle_node(target, node, times);
	}
	if (pending && !value_spreads_add(&ranks->values, target, pending, ranks->other))
		target->out_of_memory = true;
	rank_values_free(pending);
	if (ranks)
		ranks->pending = NULL;
}

uint64_t ranks_pending_bytes(const struct profile *target)
{
	const struct rank_values *pending = target->ranks ? target->ranks->pending : NULL;
	uint64_t numbers = target->node_count + target->value_count;

	return pending ? pending->count * numbers * sizeof(uint64_t) : 0;
}

/* True if each node and metric of the source has its own number in the target. */
static bool is_same(const struct profile *source, const struct merge_maps *maps)
{
	size_t i = 0;

	while (i < source->node_count && maps->nodes[i] == i)
		i++;
	/* The node of all others has no statistics in the target. */
	if (i < source->node_count || (maps->other && ranks_spread(source, maps->other)))
		return false;
	for (i = 0; i < source->metric_count && maps->metrics[i] == i;)
		i++;
	return i == source->metric_count;
}

/* Moves all statistics to a target without any: they are large. */
static void move_statistics(struct profile_ranks *to, struct profile_ranks *from)
{
	const struct profile_ranks empty = *to;

	to->spreads = from->spreads;
	to->spread_count = from->spread_count;
	to->spread_of_node = from->spread_of_node;
	to->node_capacity = from->node_capacity;
	to->values = from->values;
	from->spreads = empty.spreads;
	from->spread_count = empty.spread_count;
	from->spread_of_node = empty.spread_of_node;
	from->node_capacity = empty.node_capacity;
	from->values = empty.values;
}

void ranks_add_part(struct profile *target, struct profile *source, const struct merge_maps *maps)
{
	struct profile_ranks *from = source->ranks;

	if (target->out_of_memory || !from || !ranks_of(target))
		return;
	if (target->ranks->spread_count == 1 && !target->ranks->values.count &&
	    is_same(source, maps))
		move_statistics(target->ranks, from);
	for (size_t i = 1; i < from->spread_count; i++) {
		uint32_t node = maps->nodes[from->spreads[i].node];
		struct row_spread *spread =
			!maps->other || node != maps->other ? spread_at(target, node) : NULL;

		if (spread)
			add_spread(spread, &from->spreads[i]);
	}
	if (!value_spreads_add_part(&target->ranks->values, &from->values, maps))
		target->out_of_memory = true;
	for (size_t i = 0; i < from->count; i++) {
		struct row_rank row = from->rows[i];

		for (size_t text = 0; text < ROW_TEXTS; text++) {
			uint32_t *string = text_of(&row, text);

			*string = profile_add_text(target, profile_text(source, *string));
		}
		add_row(target, row);
	}
	waits_add_part(target, source, maps);
}

/* ------------------------------------------------------------------ the whole job */

ARRAY_ORDER(compare_rows, struct row_rank,
	    ORDER_OF(a->rank, b->rank) ?: ORDER_OF(a->attempt, b->attempt)
	    ?: ORDER_OF(a->number, b->number))

static bool lacks_data(const struct row_rank *row)
{
	return row->state == RANK_KILLED || row->state == RANK_DAMAGED ||
	       row->state == RANK_MISSING;
}

void ranks_complete(struct profile *profile)
{
	struct profile_ranks *ranks = ranks_of(profile);
	size_t count = ranks ? ranks->count : 0;
	uint32_t world = 0;
	size_t at = 0;

	if (count)
		ARRAY_SORT(ranks->rows, count, compare_rows);
	for (size_t i = 0; i < count; i++) {
		struct row_rank *row = &ranks->rows[i];

		world = row->world > world ? row->world : world;
		/* Rows after the first with a rank and attempt. */
		if (i && row->rank == row[-1].rank && row->attempt == row[-1].attempt)
			row->state = RANK_DUPLICATE;
	}
	size_t max = count * WORLD_PER_RANK > WORLD_OF_FEW ? count * WORLD_PER_RANK : WORLD_OF_FEW;
	max = max < WORLD_MAX ? max : WORLD_MAX;
	world = world < max ? world : (uint32_t)max;
	for (uint32_t rank = 0; rank < world && !profile->out_of_memory; rank++) {
		while (at < count && ranks->rows[at].rank < rank)
			at++;
		if (at == count || ranks->rows[at].rank != rank)
			add_row(profile, (struct row_rank){.rank = rank, .state = RANK_MISSING});
	}
	if (ranks && ranks->count > count)
		ARRAY_SORT(ranks->rows, ranks->count, compare_rows);
	/* The table says it of each rank; the sum is what a file of it will be when it is read. */
	profile->is_damaged = profile->is_unfinished = false;
	for (size_t i = 0; ranks && i < ranks->count; i++)
		profile->is_unfinished |= lacks_data(&ranks->rows[i]);
	waits_complete(profile);
}

/* ------------------------------------------------------------------ loading */

static void load_rows(struct profile *profile, const struct profile_view *view)
{
	const struct row_rank *rows = view->table[TABLE_RANKS];

	for (uint64_t i = 0; i < view->rows[TABLE_RANKS]; i++) {
		struct row_rank row = rows[i];

		for (size_t number = 0; number < ROW_TEXTS; number++) {
			uint32_t *string = text_of(&row, number);
			uint32_t length;
			const char *text = profile_view_string(view, *string, &length);

			*string = profile_string(profile, text, length);
		}
		profile->is_unfinished |= lacks_data(&row);
		add_row(profile, row);
	}
}

static void load_columns(struct profile *profile, const struct profile_view *view,
			 const uint32_t *nodes)
{
	struct profile_ranks *ranks = profile->ranks;
	const struct row_column *columns = view->table[TABLE_COLUMNS];
	uint64_t count = view->rows[TABLE_COLUMNS];
	uint64_t cells = view->rows[TABLE_CELLS];

	if (!count || cells / count != ranks->count || cells % count) {
		profile->is_damaged = profile->is_damaged || count || cells;
		return;
	}
	ranks->columns = calloc(count, sizeof(*ranks->columns));
	ranks->cells = malloc((cells + 1) * sizeof(*ranks->cells));
	if (!ranks->columns || !ranks->cells) {
		profile->out_of_memory = true;
		return;
	}
	memcpy(ranks->cells, view->table[TABLE_CELLS], cells * sizeof(*ranks->cells));
	for (uint64_t i = 0; i < count; i++) {
		uint32_t row = columns[i].node;
		uint32_t node = row < view->rows[TABLE_NODES] ? nodes[row] : 0;

		if (!node) {
			profile->is_damaged = true;
			break;
		}
		ranks->columns[i].node = node - 1;
		ranks->column_count = i + 1;
	}
	if (!ranks_index_columns(ranks))
		profile->out_of_memory = true;
}

void ranks_load(struct profile *profile, const struct profile_view *view, const uint32_t *nodes,
		const uint32_t *metrics)
{
	const struct row_spread *spreads = view->table[TABLE_SPREADS];

	if (!view->rows[TABLE_RANKS] || !ranks_of(profile))
		return;
	load_rows(profile, view);
	for (uint64_t i = 0; i < view->rows[TABLE_SPREADS]; i++) {
		uint32_t row = spreads[i].node;
		uint32_t node = row < view->rows[TABLE_NODES] ? nodes[row] : 0;

		if (!node || !spreads[i].ranks) {
			profile->is_damaged = true;
			continue;
		}
		struct row_spread *spread = spread_at(profile, node - 1);
		if (spread && spread->ranks)
			profile->is_damaged = true; /* a second row for the node */
		else if (spread)
			add_spread(spread, &spreads[i]);
	}
	value_spreads_load(&profile->ranks->values, profile, view, nodes, metrics);
	load_columns(profile, view, nodes);
}
