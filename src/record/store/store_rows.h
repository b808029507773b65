/*
 * Inside the store: its rows, shared by store.c (contexts and kernels), store_config.c (what
 * kernels were launched with), store_metric.c (metric values) and store_phase.c (phases). Nobody
 * else includes this.
 */
#ifndef RECORD_STORE_STORE_ROWS_H
#define RECORD_STORE_STORE_ROWS_H

#include "record/store/store.h"

#define NODE_NONE UINT32_MAX

/* Table access: rows never move, so the pointers stay good. */
static inline struct row_node *store_node_rows(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_NODES);
}

static inline struct row_value *store_value_rows(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_VALUES);
}

static inline struct row_kernel *store_kernel_rows(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_KERNELS);
}

static inline struct row_epoch *store_epoch_rows(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_EPOCHS);
}

static inline struct row_histogram *store_histogram_rows(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_HISTOGRAMS);
}

/*
 * The index of a new zeroed row of `table`; 0 when there is no room, which is said once. The caller
 * fills the row, commits the table and only then links the row to others: a killed process leaves
 * no row half made.
 */
uint32_t store_new_row(struct store *store, enum table_id table);

static inline void store_commit(struct store *store, enum table_id table)
{
	profile_file_commit(&store->file, table);
}

/*
 * store_lists.c: rows of nodes' lists. A new row is one that clearing a phase gave back, or is
 * added to its table; zeroed, 0 when there is no room. The caller fills it, epoch included, and
 * links it.
 */
int store_lists_init(struct store *store, struct proton_error *err);
void store_lists_fini(struct store *store);
bool store_lists_hold_epoch(const struct store *store, uint64_t epoch);
uint32_t store_lists_tick(const struct store *store, uint32_t epoch);
uint32_t store_new_value(struct store *store);
void store_link_value(struct store *store, uint32_t node, uint32_t value);
uint32_t store_new_kernel(struct store *store);
void store_link_kernel(struct store *store, uint32_t node, uint32_t kernel);
uint32_t store_new_histogram(struct store *store);
/* The row of a node's list, 0 if there is none. From any thread, without a lock. */
uint32_t store_find_value(const struct store *store, uint32_t node, uint32_t metric,
			  uint32_t epoch);
uint32_t store_find_kernel(const struct store *store, uint32_t node, uint32_t device,
			   uint32_t epoch);
/* Takes the rows of an epoch out of the lists; they may be used again. */
void store_drop_epoch(struct store *store, uint32_t epoch);
/* Gives the words of a vector back; harmless for other values. */
void store_drop_vector(struct store *store, const struct row_value *value);
/*
 * The node of `context`, made with the ancestors it lacks; NODE_NONE when there is no room. What is
 * made belongs to `epoch`, that of the launch: its record may come when the phase has ended. It has
 * not been cleared.
 */
uint32_t store_node(struct store *store, uint32_t context, uint32_t epoch);
void store_lists_begin_epoch(struct store *store, uint32_t epoch);
/* New rows at the end of a table, NULL when there is no room, which is said once. */
void *store_append(struct store *store, enum table_id table, uint64_t rows);
/* A copy of a text in the file, not interned; 0, the empty string, when there is no room. */
uint32_t store_new_string(struct store *store, const char *text, size_t length);
/* Adds what ran on `device` (rows of this file), in a store of a trace. */
void store_device_event(struct store *store, uint32_t node, uint32_t device, uint32_t epoch,
			const struct execution *execution);
/* Gives an event a value, of which only metric and content count. */
void store_sample(struct store *store, uint32_t event, const struct row_value *value);
/* The file's copy of a process-wide string; 0, the empty string, when there is no room. */
uint32_t store_string(struct store *store, uint32_t string);
/*
 * store_add.c: what the thread that holds the session's lock adds; store->is_shared says how. A sum
 * that would leave its range stays, and is false.
 */
void store_add_execution(struct store *store, uint32_t kernel, uint64_t duration_ns);
bool store_add_int64(int64_t *sum, int64_t more, bool is_shared);
void store_add_double(double *sum, double more, bool is_shared);
void store_count_add(struct store *store, enum counter counter);
/* Adds one execution of kernel row `kernel` to the configuration it was launched with. */
void store_config(struct store *store, uint32_t kernel, const struct launch_config *config,
		  uint64_t duration_ns);
/* Gives the configurations of a kernel row back. */
void store_drop_configs(struct store *store, uint32_t kernel);
/* True, and counted as a loss, if what belongs to `epoch` has been cleared meanwhile. */
bool store_epoch_is_cleared(struct store *store, uint32_t epoch);

#endif
