/* Counters of a session: their names and values. */
#include <stdatomic.h>
#include <string.h>

#include "record/names/name_limits.h"
#include "record/store/store_rows.h"

static const struct {
	const char *name;
	bool is_loss;
} counters[COUNTER_COUNT] = {
#define COUNTER(id, name) {name, false},
#define LOSS(id, name) {"lost: " name, true},
#include "record/store/counters.def"
};

static _Atomic uint64_t unknown_origins; /* since the process began */

void store_counters_note_origin(void)
{
	atomic_fetch_add_explicit(&unknown_origins, 1, memory_order_relaxed);
}

uint64_t store_counters_origins(void)
{
	return atomic_load_explicit(&unknown_origins, memory_order_relaxed);
}

const char *store_counters_name(enum counter counter)
{
	return counters[counter].name;
}

bool store_counters_is_loss(enum counter counter)
{
	return counters[counter].is_loss;
}

bool store_counters_init(struct store *store)
{
	struct row_counter *rows = profile_file_append(&store->file, TABLE_COUNTERS, COUNTER_COUNT);

	if (!rows)
		return false;
	for (int i = 0; i < COUNTER_COUNT; i++)
		rows[i] = (struct row_counter){
			.name = store_new_string(store, counters[i].name, strlen(counters[i].name)),
			.is_loss = counters[i].is_loss,
		};
	store_commit(store, TABLE_COUNTERS);
	return true;
}

void store_counters_add(struct store *store, enum counter counter, uint64_t more)
{
	struct row_counter *row = profile_file_rows(&store->file, TABLE_COUNTERS);

	row[counter].value += more;
}

void store_counters_add_folded(struct store *store)
{
	uint64_t folded = name_limits_folded();
	uint64_t lost = name_limits_lost();
	uint64_t origins = store_counters_origins();

	if (folded != store->folded)
		store_counters_add(store, COUNTER_LOST_NAME, folded - store->folded);
	if (lost != store->lost)
		store_counters_add(store, COUNTER_LOST_STORAGE, lost - store->lost);
	if (origins != store->origins)
		store_counters_add(store, COUNTER_ORIGIN_UNKNOWN, origins - store->origins);
	if (__atomic_load_n(&store->file.is_truncated, __ATOMIC_RELAXED) && !store->is_truncated)
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
	store->is_truncated = __atomic_load_n(&store->file.is_truncated, __ATOMIC_RELAXED);
	store->folded = folded;
	store->lost = lost;
	store->origins = origins;
}

_Static_assert(COUNTER_KERNELS < STRIPE_COUNTERS && COUNTER_METRICS < STRIPE_COUNTERS, "stripes");

void store_counters_share(struct store *store)
{
	struct row_counter *rows = profile_file_rows(&store->file, TABLE_COUNTERS);
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
	const struct row_counter *rows = profile_file_rows(&store->file, TABLE_COUNTERS);
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
		if ((with_losses || !counters[i].is_loss) &&
		    store_counters_get(store, (enum counter)i))
			return false;
	return store_context_count(store) == 0;
}
