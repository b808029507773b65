/*
 * Lists of a node's values and kernels, and free rows.
 *
 * A node's rows are sorted by epoch, the newest first: rows that are recorded now are found at
 * once, no matter how many phases are kept. For each row, process memory has fields that readers do
 * not need: its node, the previous row in the node's list, and the next row of the same epoch. So
 * the time to clear a phase depends on its own rows, not on all nodes and phases.
 *
 * Once several threads add to the session, each stripe of them takes rows from its own cache lines:
 * threads that add to different rows do not slow each other.
 */
#include "record/names/frames.h"
#include "record/store/store_rows.h"

/* Fields of a row that are not in the file. */
struct row_place {
	uint32_t node;
	uint32_t previous; /* in the node's list; 0: this is the first */
	uint32_t of_epoch; /* next row of the same epoch, or next free one; 0: this is the last */
	uint32_t stripe;   /* to which the row returns when it is free */
};

/* The first rows of an epoch. */
struct epoch_rows {
	uint32_t first[LIST_COUNT];
	uint32_t tick; /* tick of frames.h at its beginning */
};

static const enum table_id tables[LIST_COUNT] = {TABLE_VALUES, TABLE_KERNELS};

/* Rows of whole pairs of cache lines, which processors prefetch together. */
#define BLOCK_BYTES (6 * CACHE_LINE_BYTES)

_Static_assert(BLOCK_BYTES % sizeof(struct row_value) == 0, "lines");
_Static_assert(BLOCK_BYTES % sizeof(struct row_kernel) == 0, "lines");

static struct row_place *place_of(const struct store *store, enum store_list list, uint32_t row)
{
	return (struct row_place *)store->places[list].base + row;
}

static struct epoch_rows *rows_of(const struct store *store, uint32_t epoch)
{
	return (struct epoch_rows *)store->epoch_rows.base + epoch;
}

bool store_lists_begin_epoch(struct store *store, uint64_t epoch)
{
	if (!region_reaches(&store->epoch_rows, (epoch + 1) * sizeof(struct epoch_rows)))
		return false;
	rows_of(store, (uint32_t)epoch)->tick = reused_names_tick();
	return true;
}

uint32_t store_lists_tick(const struct store *store, uint32_t epoch)
{
	return rows_of(store, epoch)->tick;
}

/* Adds a block of rows to the table for one stripe, or one row for a single thread. */
static bool add_rows(struct store *store, enum store_list list, struct free_rows *own)
{
	enum table_id table = tables[list];
	uint64_t block = BLOCK_BYTES / profile_row_bytes[table];
	uint64_t next = store->file.tables[table].rows;
	uint64_t end = next + 1;

	if (store->is_shared) {
		next = (next + block - 1) / block * block;
		end = next + block;
	}
	if (end > UINT32_MAX ||
	    !region_reaches(&store->places[list], end * sizeof(struct row_place)) ||
	    !store_append(store, table, end - store->file.tables[table].rows)) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return false;
	}
	own->next = (uint32_t)next;
	own->end = (uint32_t)end;
	return true;
}

/* Takes the free rows of another stripe, all of them: they share lines. False if there are none. */
static bool take_others(struct free_rows *rows, uint32_t stripe)
{
	for (uint32_t i = 1; i < STORE_STRIPES; i++) {
		struct free_rows *from = &rows[(stripe + i) % STORE_STRIPES];

		if (!from->first)
			continue;
		rows[stripe].first = from->first;
		from->first = 0;
		return true;
	}
	return false;
}

/* After its first block a stripe takes free rows of others: programs may have short threads. */
uint32_t store_lists_new(struct store *store, enum store_list list, uint32_t of, uint32_t epoch)
{
	uint32_t stripe = store->stripe % STORE_STRIPES;
	struct free_rows *rows = store->free_rows[list];
	struct free_rows *own = &rows[stripe];

	if (!own->first && own->next == own->end &&
	    !((own->end || !store->is_shared) && take_others(rows, stripe)) &&
	    !add_rows(store, list, own))
		return 0;
	uint32_t row = own->first;
	if (row)
		own->first = place_of(store, list, row)->of_epoch;
	else
		row = own->next++;
	place_of(store, list, row)->stripe = stripe;
	uint32_t *words = store_list_row(store, list, row);
	memset(words, 0, profile_row_bytes[tables[list]]);
	if (list == LIST_KERNELS)
		store_windows_forget_kernel(&store->windows, row);
	words[LIST_OF] = of;
	words[LIST_EPOCH] = epoch;
	return row;
}

static void free_row(struct store *store, enum store_list list, uint32_t row)
{
	struct row_place *place = place_of(store, list, row);
	struct free_rows *home = &store->free_rows[list][place->stripe];

	place->of_epoch = home->first;
	home->first = row;
}

/* The link to the row after `row`; 0: to the first of the node. */
static uint32_t *link_after(const struct store *store, enum store_list list, uint32_t node,
			    uint32_t row)
{
	return row ? &store_list_row(store, list, row)[LIST_NEXT]
		   : store_list_first(store, list, node);
}

void store_lists_link(struct store *store, enum store_list list, uint32_t node, uint32_t row)
{
	uint32_t *words = store_list_row(store, list, row);
	struct epoch_rows *epoch = rows_of(store, words[LIST_EPOCH]);
	struct row_place *place = place_of(store, list, row);
	uint32_t previous = 0;
	uint32_t next = *store_list_first(store, list, node);

	while (next && store_list_row(store, list, next)[LIST_EPOCH] > words[LIST_EPOCH]) {
		previous = next;
		next = store_list_row(store, list, next)[LIST_NEXT];
	}
	place->node = node;
	place->previous = previous;
	place->of_epoch = epoch->first[list];
	epoch->first[list] = row;
	words[LIST_NEXT] = next;
	if (next)
		place_of(store, list, next)->previous = row;
	store_commit(store, tables[list]);
	/* release: readers of the link find the row filled */
	__atomic_store_n(link_after(store, list, node, previous), row, __ATOMIC_RELEASE);
}

uint32_t store_lists_node_of_kernel(const struct store *store, uint32_t kernel)
{
	return place_of(store, LIST_KERNELS, kernel)->node;
}

static void unlink_row(struct store *store, enum store_list list, uint32_t row)
{
	const struct row_place *place = place_of(store, list, row);
	uint32_t next = store_list_row(store, list, row)[LIST_NEXT];

	if (next)
		place_of(store, list, next)->previous = place->previous;
	__atomic_store_n(link_after(store, list, place->node, place->previous), next,
			 __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ whole epochs */

static void drop_kernel(struct store *store, uint32_t at)
{
	struct row_kernel *kernel = &store_kernel_rows(store)[at];

	unlink_row(store, LIST_KERNELS, at);
	if (kernel->histogram)
		store_free_row(store, TABLE_HISTOGRAMS, kernel->histogram);
	kernel->histogram = 0;
	store_free_ring(store, TABLE_CONFIGS, store_map_at(&store->config_of_kernel, at));
	store_free_ring(store, TABLE_RUNS, store_map_at(&store->samples.last_runs, at));
	free_row(store, LIST_KERNELS, at);
}

void store_lists_drop_epoch(struct store *store, uint32_t epoch)
{
	struct epoch_rows *first = rows_of(store, epoch);

	for (uint32_t at = first->first[LIST_VALUES], next; at; at = next) {
		next = place_of(store, LIST_VALUES, at)->of_epoch;
		unlink_row(store, LIST_VALUES, at);
		store_metric_drop_vector(store, &store_value_rows(store)[at]);
		free_row(store, LIST_VALUES, at);
	}
	for (uint32_t at = first->first[LIST_KERNELS], next; at; at = next) {
		next = place_of(store, LIST_KERNELS, at)->of_epoch;
		drop_kernel(store, at);
	}
	store_samples_drop_epoch(store, epoch);
	store_collectives_drop_epoch(store, epoch);
	*first = (struct epoch_rows){.tick = first->tick};
}
