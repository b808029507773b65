/* Phases of a session. An epoch is a life of a phase; its rows are freed when that is cleared. */
#include "base/array.h"
#include "base/clock.h"
#include "record/store/store_rows.h"

#define EPOCH_NONE UINT32_MAX

/* The last epoch with a phase of at most `phase`; phases never decrease from row to row. */
static uint32_t epoch_of(const struct store *store, uint32_t phase)
{
	const struct row_epoch *rows = store_epoch_rows(store);
	uint64_t count = store->file.tables[TABLE_EPOCHS].rows;

	count = ARRAY_COUNT_BEFORE(count, i, rows[i].phase <= phase);
	return count ? (uint32_t)(count - 1) : EPOCH_NONE;
}

/* The flags in `mask` of the last epoch of a phase; -1: there is no such phase. */
static int64_t flags_of(const struct store *store, uint32_t phase, uint32_t mask)
{
	const struct row_epoch *rows = store_epoch_rows(store);
	uint32_t epoch = epoch_of(store, phase);

	return epoch != EPOCH_NONE && rows[epoch].phase == phase
		       ? (int64_t)(rows[epoch].flags & mask)
		       : -1;
}

uint32_t store_phase(const struct store *store)
{
	return store_epoch_rows(store)[store->epoch].phase;
}

bool store_phase_is_kept(const struct store *store, uint32_t phase)
{
	return flags_of(store, phase, EPOCH_CLEARED) == 0;
}

void store_phase_begin(struct store *store, uint32_t phase)
{
	uint64_t count = store->file.tables[TABLE_EPOCHS].rows;
	struct row_epoch *row = store_lists_begin_epoch(store, count)
					? profile_file_append(&store->file, TABLE_EPOCHS, 1)
					: NULL;
	uint64_t now_ns = clock_real_ns();

	if (!row) { /* continue in the current epoch */
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	if (count)
		store_epoch_rows(store)[count - 1].end_ns = now_ns;
	*row = (struct row_epoch){.phase = phase, .start_ns = now_ns};
	store_commit(store, TABLE_EPOCHS);
	store->epoch = (uint32_t)count;
}

uint32_t store_phase_first_kept_tick(const struct store *store)
{
	/* None is kept if there was no space for another epoch: then names are not reused. */
	return store->first_kept_epoch <= store->epoch
		       ? store_lists_tick(store, store->first_kept_epoch)
		       : 0;
}

void store_phase_finish(struct store *store)
{
	store_epoch_rows(store)[store->epoch].end_ns = clock_real_ns();
	store_epoch_rows(store)[store->epoch].flags |= EPOCH_COMPLETE;
}

/* Clears all epochs of the phases `first` to `last`; earlier ones already are. */
static void clear_epochs(struct store *store, uint32_t first, uint32_t last)
{
	struct row_epoch *rows = store_epoch_rows(store);
	uint32_t epoch = epoch_of(store, last);

	for (; epoch != EPOCH_NONE && rows[epoch].phase >= first; epoch--) {
		if (rows[epoch].flags & EPOCH_CLEARED && epoch < store->first_kept_epoch)
			break;
		if (!(rows[epoch].flags & EPOCH_CLEARED)) {
			__atomic_store_n(&rows[epoch].flags, rows[epoch].flags | EPOCH_CLEARED,
					 __ATOMIC_RELAXED);
			store_lists_drop_epoch(store, epoch);
		}
		if (epoch == 0)
			break;
	}
	while (store->first_kept_epoch < store->file.tables[TABLE_EPOCHS].rows &&
	       rows[store->first_kept_epoch].flags & EPOCH_CLEARED)
		store->first_kept_epoch++;
}

bool store_phase_close(struct store *store, uint32_t phase, bool is_closed)
{
	struct row_epoch *rows = store_epoch_rows(store);
	uint32_t epoch = epoch_of(store, phase);
	bool is_changed = false;

	for (; epoch != EPOCH_NONE && rows[epoch].phase == phase; epoch--) {
		if (!!(rows[epoch].flags & EPOCH_CLOSED) != is_closed) {
			__atomic_store_n(&rows[epoch].flags, rows[epoch].flags ^ EPOCH_CLOSED,
					 __ATOMIC_RELAXED);
			is_changed = true;
		}
		if (epoch == 0)
			break;
	}
	return is_changed;
}

void store_phase_clear(struct store *store, uint32_t phase, bool up_to)
{
	uint32_t current_phase = store_phase(store);

	clear_epochs(store, up_to ? 0 : phase, phase);
	store_event_rows_clear(store);
	if (store_epoch_rows(store)[store->epoch].flags & EPOCH_CLEARED)
		store_phase_begin(store, current_phase);
}

void store_phase_complete_earlier(struct store *store)
{
	struct row_epoch *rows = store_epoch_rows(store);
	uint32_t epoch = store->epoch;

	/* All epochs before a complete one are complete. */
	while (epoch > 0 && !(rows[epoch - 1].flags & EPOCH_COMPLETE))
		rows[--epoch].flags |= EPOCH_COMPLETE;
}

bool store_phase_is_complete(const struct store *store, uint32_t phase)
{
	return flags_of(store, phase, EPOCH_COMPLETE) > 0;
}
