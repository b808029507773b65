/*
 * Launch configurations of kernels. Nearly every execution of a kernel has the same configuration
 * as the previous one, so each kernel row remembers the row of TABLE_CONFIGS that it counted last,
 * and one comparison is enough. The rows of a kernel form a circular list through that row. After
 * CONFIGS_PER_KERNEL configurations, further ones share a row.
 *
 * Rows are made and linked under the session's lock; threads without it only find them.
 */

#include "record/store/store_rows.h"

/* A row for `config`, which the kernel's list does not have; 0 if there is no space. */
static uint32_t make_config(struct store *store, uint32_t kernel, uint32_t last,
			    const struct launch_config *config)
{
	struct row_config *rows = store_config_rows(store);
	uint32_t flags = 0, others = 0, own = 0;
	uint32_t at = last;

	if (last) {
		do {
			if (rows[at].flags & CONFIG_OTHER)
				others = at;
			else
				own++;
			at = rows[at].next;
		} while (at && at != last);
	}
	if (own >= CONFIGS_PER_KERNEL) {
		if (others)
			return others;
		flags = CONFIG_OTHER;
	}
	at = store_new_row(store, TABLE_CONFIGS);
	if (!at)
		return 0;
	rows[at].flags = flags;
	if (!flags)
		rows[at].config = *config;
	rows[at].next = last ? rows[last].next : at;
	rows[at].kernel = kernel;
	store_commit(store, TABLE_CONFIGS);
	/* release: pairs with find_config() */
	if (last)
		__atomic_store_n(&rows[last].next, at, __ATOMIC_RELEASE);
	return at;
}

/* The row of `config` in the list, 0 if there is none. From any thread, without a lock. */
static uint32_t find_config(const struct row_config *rows, uint32_t last,
			    const struct launch_config *config)
{
	uint32_t at = last;

	while (memcmp(&rows[at].config, config, sizeof(*config)) != 0) {
		at = __atomic_load_n(&rows[at].next, __ATOMIC_ACQUIRE);
		if (at == last || !at) /* 0: the file was truncated */
			return 0;
	}
	return at;
}

static void count_config(struct row_config *row, uint64_t duration_ns, bool is_shared)
{
	store_add_u64(&row->count, 1, is_shared);
	store_add_u64(&row->total_ns, duration_ns, is_shared);
}

bool store_config_add(const struct store *store, uint32_t kernel,
		      const struct launch_config *config, uint64_t duration_ns, bool is_shared)
{
	struct row_config *rows = store_config_rows(store);
	uint32_t *last = store_map_at(&store->config_of_kernel, kernel);

	if (!config->grid[0]) /* the backend does not know it */
		return true;
	/* acquire: pairs with store_config() */
	uint32_t known = last ? __atomic_load_n(last, __ATOMIC_ACQUIRE) : 0;
	uint32_t at = known ? find_config(rows, known, config) : 0;
	if (!at)
		return false;
	if (at != known)
		__atomic_store_n(last, at, __ATOMIC_RELEASE);
	count_config(&rows[at], duration_ns, is_shared);
	return true;
}

void store_config(struct store *store, uint32_t kernel, const struct launch_config *config,
		  uint64_t duration_ns)
{
	if (store_config_add(store, kernel, config, duration_ns, store->is_shared))
		return;
	uint32_t *last = store_map_reach(&store->config_of_kernel, kernel);
	if (!last) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	uint32_t at = make_config(store, kernel, __atomic_load_n(last, __ATOMIC_RELAXED), config);
	if (!at)
		return;
	/* release: pairs with store_config_add() */
	__atomic_store_n(last, at, __ATOMIC_RELEASE);
	count_config(&store_config_rows(store)[at], duration_ns, store->is_shared);
}
