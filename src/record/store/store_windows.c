/* Estimates from windows in a store. */
#include "record/store/store.h"

#include "model/estimates.h"
#include "record/names/frames.h"
#include "record/store/store_rows.h"

#define SEEN_RESERVE (16ull << 30) /* as many rows as MAP_RESERVE of store.c has */

/* Adds what a kernel gained in the window to its node. */
static void add_kernel(struct store *store, uint32_t kernel, const struct record_window *window,
		       uint32_t name)
{
	const struct row_kernel *row = &store_kernel_rows(store)[kernel];
	struct seen_kernel now = {.total_ns = __atomic_load_n(&row->total_ns, __ATOMIC_RELAXED),
				  .count = __atomic_load_n(&row->count, __ATOMIC_RELAXED)};
	struct seen_kernel *seen = store_windows_seen(&store->windows, kernel);
	double weight = window->weight * window->slowness;
	double words[ESTIMATES_WORDS] = {0};

	if (!seen || (now.count == seen->count && now.total_ns == seen->total_ns) ||
	    store_epoch_rows(store)[row->epoch].flags & EPOCH_CLEARED)
		return;
	words[window->group ? ESTIMATES_COUNT : ESTIMATES_COUNT_FIRST] =
		(double)(now.count - seen->count) * weight;
	words[ESTIMATES_FIRST + window->group] = (double)(now.total_ns - seen->total_ns) * weight;
	*seen = now;
	store_metric_add_doubles(store, store_lists_node_of_kernel(store, kernel), row->epoch, name,
				 words, ESTIMATES_WORDS);
}

/* Adds the window, and the active time, to the root. */
static void add_window(struct store *store, const struct record_window *window, uint32_t name)
{
	struct store_windows *windows = &store->windows;
	uint64_t active_ns = store_windows_active(windows, window->close_ns);
	uint64_t open_ns = window->open_ns;
	double words[ESTIMATES_WORDS] = {0};

	if (windows->since_ns > open_ns) /* the session began in it */
		open_ns = windows->since_ns;
	if (window->close_ns > open_ns) {
		words[ESTIMATES_RECORDED] = (double)(window->close_ns - open_ns);
		words[ESTIMATES_FIRST + window->group] = words[ESTIMATES_RECORDED] * window->weight;
	}
	if (active_ns > windows->written_ns) {
		words[ESTIMATES_ACTIVE] = (double)(active_ns - windows->written_ns);
		windows->written_ns = active_ns;
	}
	store_metric_add_doubles(store, 0, store->epoch, name, words, ESTIMATES_WORDS);
}

void store_windows_set(struct store *store, const struct record_window *window)
{
	uint64_t rows = store->file.tables[TABLE_KERNELS].rows;

	store->windows.at = *window;
	store->windows.has_any = true;
	if (!window->close_ns)
		return;
	store->windows.at.open_ns = 0;
	uint32_t name = metric_names_add(ESTIMATES_METRIC);
	if (name == METRIC_NAME_NONE ||
	    (!store->windows.seen.base &&
	     region_reserve(&store->windows.seen, SEEN_RESERVE, 1 << 20, 1, NULL) != PROTON_OK) ||
	    !region_reaches(&store->windows.seen, rows * sizeof(struct seen_kernel))) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	for (uint32_t i = 1; i < rows; i++)
		add_kernel(store, i, window, name);
	add_window(store, window, name);
}

void store_windows_finish(struct store *store, uint64_t now_ns)
{
	struct record_window last = store->windows.at;

	if (!store->windows.has_any)
		return;
	/* Other sessions continue: the window stays open. Else only the active time has grown. */
	if (!last.open_ns)
		last.open_ns = now_ns;
	last.close_ns = now_ns;
	store_windows_set(store, &last);
}
