/*
 * Lists of a node's values and kernels, and free rows.
 *
 * A node's rows are sorted by epoch, the newest first: rows that are recorded now are found at
 * once, no matter how many phases are kept. For each row, process memory has fields that readers do
 * not need: its node, the previous row in the node's list, and the next row of the same epoch. So
 * the time to clear a phase depends on its own rows, not on all nodes and phases.
 */
#include "record/names/reused_names.h"
#include "record/store/store_rows.h"

/* Fields of a row that are not in the file. */
struct row_place {
	uint32_t node;
	uint32_t previous; /* in the node's list; 0: this is the first */
	uint32_t of_epoch; /* next row of the same epoch; 0: this is the last */
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
	if ((epoch + 1) * sizeof(struct epoch_rows) > store->epoch_rows.bytes)
		return false;
	rows_of(store, (uint32_t)epoch)->tick = reused_names_tick();
	return true;
}

uint32_t store_lists_tick(const struct store *store, uint32_t epoch)
{
	return rows_of(store, epoch)->tick;
}

/* A row of `table` with its entry in `places`; 0 if there is no space. */
static uint32_t new_placed_row(struct store *store, enum table_id table,
			       const struct region *places)
{
	if ((store->file.tables[table].rows + 1) * sizeof(struct row_place) <= places->bytes)
		return store_new_row(store, table);
	store_counters_add(store, COUNTER_LOST_STORAGE, 1);
	return 0;
}

/* ------------------------------------------------------------------ values */

uint32_t store_lists_new_value(struct store *store)
{
	uint32_t row = store->free_value;

	if (!row)
		return new_placed_row(store, TABLE_VALUES, &store->value_places);
	store->free_value = store_value_rows(store)[row].next;
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
	*value_place(store, row) = (struct row_place){node, previous, epoch->value};
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
	uint32_t row = store->free_kernel;

	if (!row)
		return new_placed_row(store, TABLE_KERNELS, &store->kernel_places);
	store->free_kernel = store_kernel_rows(store)[row].next;
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
	*kernel_place(store, row) = (struct row_place){node, previous, epoch->kernel};
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
	kernel->next = store->free_kernel;
	store->free_kernel = at;
}

void store_lists_drop_epoch(struct store *store, uint32_t epoch)
{
	struct epoch_rows *first = rows_of(store, epoch);

	for (uint32_t at = first->value; at; at = value_place(store, at)->of_epoch) {
		unlink_value(store, at);
		store_metric_drop_vector(store, &store_value_rows(store)[at]);
		store_value_rows(store)[at].next = store->free_value;
		store->free_value = at;
	}
	for (uint32_t at = first->kernel; at; at = kernel_place(store, at)->of_epoch)
		drop_kernel(store, at);
	store_samples_drop_epoch(store, epoch);
	store_collectives_drop_epoch(store, epoch);
	*first = (struct epoch_rows){.tick = first->tick};
}
