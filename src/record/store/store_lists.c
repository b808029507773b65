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
#include "record/names/reused_names.h"
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
	uint32_t value;
	uint32_t kernel;
	uint32_t tick; /* tick of reused_names.h at its beginning */
};

#define PLACES_RESERVE (8ull << 30)

int store_lists_init(struct store *store, struct proton_error *err)
{
	int status = region_reserve(&store->value_places, PLACES_RESERVE, 1 << 20, 1, err);

	if (status == PROTON_OK)
		status = region_reserve(&store->kernel_places, PLACES_RESERVE, 1 << 20, 1, err);
	if (status == PROTON_OK)
		status = region_reserve(&store->epoch_rows, PLACES_RESERVE / 8, 1 << 20, 1, err);
	return status;
}

void store_lists_fini(struct store *store)
{
	region_release(&store->value_places);
	region_release(&store->kernel_places);
	region_release(&store->epoch_rows);
}

static struct row_place *value_place(const struct store *store, uint32_t row)
{
	return (struct row_place *)store->value_places.base + row;
}

static struct row_place *kernel_place(const struct store *store, uint32_t row)
{
	return (struct row_place *)store->kernel_places.base + row;
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

/* Rows of whole pairs of cache lines, which processors prefetch together. */
#define BLOCK_VALUES (6 * CACHE_LINE_BYTES / sizeof(struct row_value))
#define BLOCK_KERNELS (6 * CACHE_LINE_BYTES / sizeof(struct row_kernel))

_Static_assert(BLOCK_VALUES * sizeof(struct row_value) % (2 * CACHE_LINE_BYTES) == 0, "lines");
_Static_assert(BLOCK_KERNELS * sizeof(struct row_kernel) % (2 * CACHE_LINE_BYTES) == 0, "lines");

/* Adds a block of rows to the table for one stripe, or one row for a single thread. */
static bool add_rows(struct store *store, enum table_id table, struct region *places,
		     uint64_t block, struct free_rows *own)
{
	uint64_t next = store->file.tables[table].rows;
	uint64_t end = next + 1;

	if (store->is_shared) {
		next = (next + block - 1) / block * block;
		end = next + block;
	}
	if (end > UINT32_MAX || !region_reaches(places, end * sizeof(struct row_place)) ||
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

/*
 * A row of `table`, which may have been used before; 0 if there is no space. After its first
 * block a stripe takes free rows of others, which bounds the table in a program of short threads.
 */
static uint32_t new_row(struct store *store, enum table_id table, struct region *region,
			uint64_t block, struct free_rows *rows)
{
	struct row_place *places = region->base;
	uint32_t stripe = store->stripe % STORE_STRIPES;
	struct free_rows *own = &rows[stripe];
	uint32_t row;

	if (!own->first && own->next == own->end &&
	    !((own->end || !store->is_shared) && take_others(rows, stripe)) &&
	    !add_rows(store, table, region, block, own))
		return 0;
	row = own->first;
	if (row)
		own->first = places[row].of_epoch;
	else
		row = own->next++;
	places[row].stripe = stripe;
	return row;
}

static void free_row(struct free_rows *rows, const struct region *region, uint32_t row)
{
	struct row_place *place = (struct row_place *)region->base + row;
	struct free_rows *home = &rows[place->stripe];

	place->of_epoch = home->first;
	home->first = row;
}

/* ------------------------------------------------------------------ values */

uint32_t store_lists_new_value(struct store *store)
{
	uint32_t row = new_row(store, TABLE_VALUES, &store->value_places, BLOCK_VALUES,
			       store->free_values);

	if (row)
		store_value_rows(store)[row] = (struct row_value){0};
	return row;
}

void store_lists_link_value(struct store *store, uint32_t node, uint32_t row)
{
	struct row_value *rows = store_value_rows(store);
	struct epoch_rows *epoch = rows_of(store, rows[row].epoch);
	uint32_t *link = &store_node_rows(store)[node].first_value;
	uint32_t previous = 0;

	while (*link && rows[*link].epoch > rows[row].epoch) {
		previous = *link;
		link = &rows[previous].next;
	}
	value_place(store, row)->node = node;
	value_place(store, row)->previous = previous;
	value_place(store, row)->of_epoch = epoch->value;
	epoch->value = row;
	rows[row].next = *link;
	if (*link)
		value_place(store, *link)->previous = row;
	store_commit(store, TABLE_VALUES);
	/* release: readers of the link find the row filled */
	__atomic_store_n(link, row, __ATOMIC_RELEASE);
}

uint32_t store_lists_find_value(const struct store *store, uint32_t node, uint32_t metric,
				uint32_t epoch)
{
	const struct row_value *rows = store_value_rows(store);
	/* acquire: pairs with the release in store_lists_link_value() */
	uint32_t at = __atomic_load_n(&store_node_rows(store)[node].first_value, __ATOMIC_ACQUIRE);

	while (at && rows[at].epoch >= epoch) {
		if (rows[at].epoch == epoch && rows[at].metric == metric)
			return at;
		at = __atomic_load_n(&rows[at].next, __ATOMIC_ACQUIRE);
	}
	return 0;
}

static void unlink_value(struct store *store, uint32_t row)
{
	struct row_value *rows = store_value_rows(store);
	const struct row_place *place = value_place(store, row);
	uint32_t *link = place->previous ? &rows[place->previous].next
					 : &store_node_rows(store)[place->node].first_value;

	if (rows[row].next)
		value_place(store, rows[row].next)->previous = place->previous;
	__atomic_store_n(link, rows[row].next, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ kernels */

uint32_t store_lists_new_kernel(struct store *store)
{
	uint32_t row = new_row(store, TABLE_KERNELS, &store->kernel_places, BLOCK_KERNELS,
			       store->free_kernels);

	if (row)
		store_kernel_rows(store)[row] = (struct row_kernel){0};
	return row;
}

void store_lists_link_kernel(struct store *store, uint32_t node, uint32_t row)
{
	struct row_kernel *rows = store_kernel_rows(store);
	struct epoch_rows *epoch = rows_of(store, rows[row].epoch);
	uint32_t *link = &store_node_rows(store)[node].first_kernel;
	uint32_t previous = 0;

	while (*link && rows[*link].epoch > rows[row].epoch) {
		previous = *link;
		link = &rows[previous].next;
	}
	kernel_place(store, row)->node = node;
	kernel_place(store, row)->previous = previous;
	kernel_place(store, row)->of_epoch = epoch->kernel;
	epoch->kernel = row;
	rows[row].next = *link;
	if (*link)
		kernel_place(store, *link)->previous = row;
	store_commit(store, TABLE_KERNELS);
	/* release: readers of the link find the row filled */
	__atomic_store_n(link, row, __ATOMIC_RELEASE);
}

uint32_t store_lists_find_kernel(const struct store *store, uint32_t node, uint32_t device,
				 uint32_t epoch)
{
	const struct row_kernel *rows = store_kernel_rows(store);
	/* acquire: pairs with the release in store_lists_link_kernel() */
	uint32_t at = __atomic_load_n(&store_node_rows(store)[node].first_kernel, __ATOMIC_ACQUIRE);

	while (at && rows[at].epoch >= epoch) {
		if (rows[at].epoch == epoch && rows[at].device == device)
			return at;
		at = __atomic_load_n(&rows[at].next, __ATOMIC_ACQUIRE);
	}
	return 0;
}

static void unlink_kernel(struct store *store, uint32_t row)
{
	struct row_kernel *rows = store_kernel_rows(store);
	const struct row_place *place = kernel_place(store, row);
	uint32_t *link = place->previous ? &rows[place->previous].next
					 : &store_node_rows(store)[place->node].first_kernel;

	if (rows[row].next)
		kernel_place(store, rows[row].next)->previous = place->previous;
	__atomic_store_n(link, rows[row].next, __ATOMIC_RELEASE);
}

uint32_t store_lists_new_histogram(struct store *store)
{
	struct row_histogram *histograms = store_histogram_rows(store);
	uint32_t row = store->free_histogram;

	if (!row)
		return store_new_row(store, TABLE_HISTOGRAMS);
	store->free_histogram = histograms[row].bucket[0];
	histograms[row] = (struct row_histogram){0};
	return row;
}

/* ------------------------------------------------------------------ whole epochs */

static void drop_kernel(struct store *store, uint32_t at)
{
	struct row_kernel *kernel = &store_kernel_rows(store)[at];
	struct row_histogram *histograms = store_histogram_rows(store);

	unlink_kernel(store, at);
	if (kernel->histogram) {
		histograms[kernel->histogram].bucket[0] = store->free_histogram;
		store->free_histogram = kernel->histogram;
		kernel->histogram = 0;
	}
	store_config_drop(store, at);
	store_samples_drop_runs(store, at);
	free_row(store->free_kernels, &store->kernel_places, at);
}

void store_lists_drop_epoch(struct store *store, uint32_t epoch)
{
	struct epoch_rows *first = rows_of(store, epoch);

	for (uint32_t at = first->value, next; at; at = next) {
		next = value_place(store, at)->of_epoch;
		unlink_value(store, at);
		store_metric_drop_vector(store, &store_value_rows(store)[at]);
		free_row(store->free_values, &store->value_places, at);
	}
	for (uint32_t at = first->kernel, next; at; at = next) {
		next = kernel_place(store, at)->of_epoch;
		drop_kernel(store, at);
	}
	store_samples_drop_epoch(store, epoch);
	store_collectives_drop_epoch(store, epoch);
	*first = (struct epoch_rows){.tick = first->tick};
}
