/* Counters of a session: their names and values. */

#include "record/store/store_rows.h"

const struct counter_kind store_counter_kinds[COUNTER_COUNT] = {
#define COUNTER(id, name) {name, false},
#define LOSS(id, name) {"lost: " name, true},
#include "record/store/counters.def"
};

bool store_counters_init(struct store *store)
{
	struct row_counter *rows = profile_file_append(&store->file, TABLE_COUNTERS, COUNTER_COUNT);

	if (!rows)
		return false;
	for (int i = 0; i < COUNTER_COUNT; i++) {
		const struct counter_kind *kind = &store_counter_kinds[i];

		rows[i].name = store_new_string(store, kind->name, strlen(kind->name));
		rows[i].is_loss = kind->is_loss;
	}
	store_commit(store, TABLE_COUNTERS);
	return true;
}

void store_counters_add(struct store *store, enum counter counter, uint64_t more)
{
	struct row_counter *row = store_counter_rows(store);

	row[counter].value += more;
}

void store_counters_add_folded(struct store *store)
{
	static const enum counter counters[LIMITS_COUNTS] = {
		[LIMITS_FOLDED] = COUNTER_LOST_NAME,
		[LIMITS_LOST] = COUNTER_LOST_STORAGE,
		[LIMITS_ORIGINS] = COUNTER_ORIGIN_UNKNOWN,
	};

	for (int i = 0; i < LIMITS_COUNTS; i++) {
		uint64_t now = name_limits_counted((enum limits_count)i);

		if (now != store->counted[i])
			store_counters_add(store, counters[i], now - store->counted[i]);
		store->counted[i] = now;
	}
	if (__atomic_load_n(&store->file.is_truncated, __ATOMIC_RELAXED) && !store->is_truncated)
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
	store->is_truncated = __atomic_load_n(&store->file.is_truncated, __ATOMIC_RELAXED);
}

_Static_assert(COUNTER_KERNELS < STRIPE_COUNTERS && COUNTER_METRICS < STRIPE_COUNTERS, "stripes");

void store_counters_share(struct store *store)
{
	struct row_counter *rows = store_counter_rows(store);
	uint64_t count = store->file.tables[TABLE_COUNTERS].rows;
	uint64_t padding = (STRIPE_COUNTERS - count % STRIPE_COUNTERS) % STRIPE_COUNTERS;
	uint64_t more = padding + (uint64_t)STORE_STRIPES * STRIPE_COUNTERS;

	/* Without space for them, all threads share the first. */
	if (store->stripes || !profile_file_append(&store->file, TABLE_COUNTERS, more))
		return;
	for (uint64_t i = 0; i < more; i++) {
		rows[count + i] = rows[(i + STRIPE_COUNTERS - padding) % STRIPE_COUNTERS];
		rows[count + i].value = 0;
	}
	store_commit(store, TABLE_COUNTERS);
	store->stripes = (uint32_t)(count + padding);
}

uint64_t store_counters_get(const struct store *store, enum counter counter)
{
	const struct row_counter *rows = store_counter_rows(store);
	uint64_t sum = __atomic_load_n(&rows[counter].value, __ATOMIC_RELAXED);

	if (!store->stripes || counter >= STRIPE_COUNTERS)
		return sum;
	rows += store->stripes;
	for (uint32_t i = 0; i < STORE_STRIPES; i++)
		sum += __atomic_load_n(&rows[i * STRIPE_COUNTERS + counter].value,
				       __ATOMIC_RELAXED);
	return sum;
}

bool store_counters_are_zero(const struct store *store, bool with_losses)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
		if ((with_losses || !store_counter_kinds[i].is_loss) &&
		    store_counters_get(store, (enum counter)i))
			return false;
	return store_context_count(store) == 0;
}
