/* Internal interface of the store: its rows, for the files store*.c. */
#pragma once

#include "record/store/store.h"

#define NODE_NONE UINT32_MAX

/* store_NAME_rows(): the rows of a table. They never move, so the pointers stay valid. */
#define STORE_ROWS(name, type, table)                                                              \
	static inline struct type *store_##name##_rows(const struct store *store)                  \
	{                                                                                          \
		return profile_file_rows(&store->file, table);                                     \
	}

STORE_ROWS(frame, row_frame, TABLE_FRAMES)
STORE_ROWS(node, row_node, TABLE_NODES)
STORE_ROWS(metric, row_metric, TABLE_METRICS)
STORE_ROWS(value, row_value, TABLE_VALUES)
STORE_ROWS(kernel, row_kernel, TABLE_KERNELS)
STORE_ROWS(histogram, row_histogram, TABLE_HISTOGRAMS)
STORE_ROWS(counter, row_counter, TABLE_COUNTERS)
STORE_ROWS(epoch, row_epoch, TABLE_EPOCHS)
STORE_ROWS(config, row_config, TABLE_CONFIGS)
STORE_ROWS(function, row_function, TABLE_FUNCTIONS)
STORE_ROWS(pc, row_pc, TABLE_PCS)
STORE_ROWS(run, row_run, TABLE_RUNS)
STORE_ROWS(durations, row_durations, TABLE_DURATIONS)

static inline void store_commit(struct store *store, enum table_id table)
{
	profile_file_commit(&store->file, table);
}

/* The number of `index` in a map of u32, from any thread; NULL: the map is not so large. */
static inline uint32_t *store_map_at(const struct region *map, uint32_t index)
{
	uint32_t *numbers = map->base;

	return region_holds(map, (index + 1ull) * sizeof(*numbers)) ? &numbers[index] : NULL;
}

/* As store_map_at(), in a map that grows; NULL: there is no space. */
static inline uint32_t *store_map_reach(struct region *map, uint32_t index)
{
	return region_reaches(map, (index + 1ull) * sizeof(uint32_t)) ? store_map_at(map, index)
								      : NULL;
}

/* ------------------------------------------------------------------ store.c */

/* New rows at the end of a table; NULL if there is no space, with one warning. */
void *store_append(struct store *store, enum table_id table, uint64_t rows);
/* The index of the first of them, in a table with an unused row 0; 0 if there is no space. */
uint32_t store_new_rows(struct store *store, enum table_id table, uint64_t rows);
/*
 * The index of a zeroed row of `table`, new or free again; 0 if there is no space, which is
 * counted. The caller fills the row, commits the table and only then links the row to others: a
 * killed process leaves no incomplete row.
 */
uint32_t store_new_row(struct store *store, enum table_id table);
/* The row may be used again. Readers of the file take it for an unused one. */
void store_free_row(struct store *store, enum table_id table, uint32_t row);
/* Frees the rows of a circular list, see store_config.c. `last`: where it is stored, or NULL. */
void store_free_ring(struct store *store, enum table_id table, uint32_t *last);
/* A copy of a text in the file, not interned; 0, the empty string, if there is no space. */
uint32_t store_new_string(struct store *store, const char *text, size_t length);
/* The file's copy of a process-wide string; 0, the empty string, if there is no space. */
uint32_t store_string(struct store *store, uint32_t string);
/*
 * The node of `context`, made with its missing ancestors; NODE_NONE if there is no space. New nodes
 * belong to `epoch`, the launch's: its record may arrive after the phase has ended. The epoch must
 * not be cleared.
 */
uint32_t store_node(struct store *store, uint32_t context, uint32_t epoch);
/* True, and counted as a loss, if `epoch` has been cleared. */
bool store_epoch_is_cleared(struct store *store, uint32_t epoch);

/* ------------------------------------------------------------------ store_lists.c */

/* False if there is no space for another epoch. */
bool store_lists_begin_epoch(struct store *store, uint64_t epoch);
uint32_t store_lists_tick(const struct store *store, uint32_t epoch);
/* A row of `of`, new or free again, zeros but for that; 0: no space. The caller links it. */
uint32_t store_lists_new(struct store *store, enum store_list list, uint32_t of, uint32_t epoch);
void store_lists_link(struct store *store, enum store_list list, uint32_t node, uint32_t row);

/* The words at the beginning of a row in a list. */
enum list_word {
	LIST_NEXT,
	LIST_OF, /* the metric of a value, the device of a kernel */
	LIST_EPOCH,
};

_Static_assert(offsetof(struct row_value, metric) == LIST_OF * sizeof(uint32_t), "layout");
_Static_assert(offsetof(struct row_kernel, device) == LIST_OF * sizeof(uint32_t), "layout");
_Static_assert(offsetof(struct row_value, epoch) == LIST_EPOCH * sizeof(uint32_t), "layout");
_Static_assert(offsetof(struct row_kernel, epoch) == LIST_EPOCH * sizeof(uint32_t), "layout");

static inline uint32_t *store_list_row(const struct store *store, enum store_list list,
				       uint32_t row)
{
	return list == LIST_VALUES ? (void *)&store_value_rows(store)[row]
				   : (void *)&store_kernel_rows(store)[row];
}

static inline uint32_t *store_list_first(const struct store *store, enum store_list list,
					 uint32_t node)
{
	struct row_node *row = &store_node_rows(store)[node];

	return list == LIST_VALUES ? &row->first_value : &row->first_kernel;
}

/* The row in a node's list, 0 if there is none. From any thread, without a lock. */
static inline uint32_t store_lists_find(const struct store *store, enum store_list list,
					uint32_t node, uint32_t of, uint32_t epoch)
{
	/* acquire: pairs with the release in store_lists_link() */
	uint32_t at = __atomic_load_n(store_list_first(store, list, node), __ATOMIC_ACQUIRE);

	while (at) {
		const uint32_t *words = store_list_row(store, list, at);

		if (words[LIST_EPOCH] < epoch)
			return 0;
		if (words[LIST_EPOCH] == epoch && words[LIST_OF] == of)
			return at;
		at = __atomic_load_n(&words[LIST_NEXT], __ATOMIC_ACQUIRE);
	}
	return 0;
}

/* Removes the rows of an epoch from the lists; they may be reused. */
void store_lists_drop_epoch(struct store *store, uint32_t epoch);
/* The node in whose list a row of kernels is. */
uint32_t store_lists_node_of_kernel(const struct store *store, uint32_t kernel);

/* ------------------------------------------------------------------ store_event_rows.c */

/* The first of `count` unused rows; 0 if there is no space. */
uint32_t store_event_rows_take(struct store *store, enum table_id table, uint32_t count);
/* Rows of events that are filled: they are used again after their phases were cleared. */
void store_event_rows_seal(struct store *store, uint32_t first, uint32_t count);
/* Call after phases were marked as cleared. */
void store_event_rows_clear(struct store *store);

/* ------------------------------------------------------------------ sums and counters */

/* With the session's lock, atomic if store->is_shared. False: a sum was clamped. */
void store_add_execution(struct store *store, uint32_t kernel, uint64_t duration_ns);
/* Adds a number to `value`, or replaces it; both have its type. */
bool store_add_number(struct row_value *value, const struct proton_metric *metric, bool is_replaced,
		      bool is_shared);

/* `is_shared`: several threads add to the number. Relaxed, because it is a sum. */
static inline void store_add_u64(uint64_t *sum, uint64_t more, bool is_shared)
{
	if (is_shared)
		__atomic_fetch_add(sum, more, __ATOMIC_RELAXED);
	else
		__atomic_store_n(sum, __atomic_load_n(sum, __ATOMIC_RELAXED) + more,
				 __ATOMIC_RELAXED);
}

/* Number of counters that are spread per thread: the first ones, a cache line of them. */
#define STRIPE_COUNTERS 4u

bool store_counters_init(struct store *store);

/* Adds 1 to one of the first counters, with or without the session's lock. */
static inline void store_counters_add_one(const struct store *store, enum counter counter,
					  bool is_shared, uint32_t stripe)
{
	struct row_counter *rows = store_counter_rows(store);

	if (is_shared && store->stripes)
		rows += store->stripes + stripe % STORE_STRIPES * STRIPE_COUNTERS;
	store_add_u64(&rows[counter].value, 1, is_shared);
}

/* ------------------------------------------------------------------ parts of a row */

/* Adds a vector to a metric of a node. */
void store_metric_add_doubles(struct store *store, uint32_t node, uint32_t epoch, uint32_t name,
			      const double *values, uint32_t count);
/* Frees the words of a vector; harmless for other values. */
void store_metric_drop_vector(struct store *store, const struct row_value *value);
/* Adds work on `device` (rows of this file), in a store of a trace. */
void store_event_add_device(struct store *store, uint32_t node, uint32_t device, uint32_t epoch,
			    const struct execution *execution);
/* Adds one execution of kernel row `kernel` to its launch configuration. */
void store_config(struct store *store, uint32_t kernel, const struct launch_config *config,
		  uint64_t duration_ns);
/* Needs no lock of the session: a known row or an unknown configuration; else false. */
bool store_config_add(const struct store *store, uint32_t kernel,
		      const struct launch_config *config, uint64_t duration_ns, bool is_shared);
