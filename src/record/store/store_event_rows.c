/*
 * Rows of trace events and samples: chunks that threads fill without a lock, and chunks of cleared
 * phases, which are used again.
 *
 * A chunk of events is sealed when its thread needs no more of it. It becomes free when all of its
 * events have ended and are of cleared phases. Each row is looked at once: the first one that is
 * still needed is remembered, and rows before it cannot be needed again. A chunk of samples becomes
 * free when the events of all of its samples are.
 */

#include "base/array.h"
#include "record/store/store_rows.h"

/* A thread's first chunk is small; one of the largest makes taking the session's lock rare. */
#define CHUNK_ROWS_FIRST 32u
#define CHUNK_ROWS_GROWTH 4u
#define CHUNK_ROWS_MAX 2048u

/* ------------------------------------------------------------------ free rows */

/* Without memory for the list the rows are not used again. */
static void insert_range(struct row_ranges *ranges, size_t at, struct row_range range)
{
	(void)ARRAY_INSERT(ranges->items, ranges->count, at, range);
}

static void remove_range(struct row_ranges *ranges, size_t at)
{
	ARRAY_REMOVE(ranges->items, ranges->count, at);
}

static void give_rows(struct row_ranges *ranges, uint32_t first, uint32_t count)
{
	/* the first range that does not end before */
	size_t at = ARRAY_COUNT_BEFORE(ranges->count, i,
				       ranges->items[i].first + ranges->items[i].count < first);
	struct row_range *next = at < ranges->count ? &ranges->items[at] : NULL;

	if (!count)
		return;
	if (next && next->first + next->count == first) {
		next->count += count;
		if (at + 1 < ranges->count && next->first + next->count == next[1].first) {
			next->count += next[1].count;
			remove_range(ranges, at + 1);
		}
	} else if (next && first + count == next->first) {
		next->first = first;
		next->count += count;
	} else {
		insert_range(ranges, at, (struct row_range){.first = first, .count = count});
	}
}

/* The first of `count` free rows; 0: there are none. */
static uint32_t take_free(struct row_ranges *ranges, uint32_t count)
{
	for (size_t i = 0; i < ranges->count; i++) {
		struct row_range *range = &ranges->items[i];
		uint32_t first = range->first;

		if (range->count < count)
			continue;
		range->first += count;
		range->count -= count;
		if (!range->count)
			remove_range(ranges, i);
		return first;
	}
	return 0;
}

/* ------------------------------------------------------------------ chunks */

static size_t samples_at(const struct row_ranges *chunks, uint32_t row)
{
	return ARRAY_COUNT_BEFORE(chunks->count, i, chunks->items[i].first <= row);
}

static void drop_samples(struct store *store, uint32_t row, uint32_t count)
{
	struct row_ranges *chunks = &store->sample_chunks;
	size_t at = samples_at(chunks, row);
	struct row_range *chunk = &chunks->items[at ? at - 1 : 0];

	if (!at || row - chunk->first >= chunk->count || chunk->left < count)
		return; /* there was no memory for its chunk */
	chunk->left -= count;
	if (chunk->left)
		return;
	give_rows(&store->free_samples, chunk->first, chunk->count);
	remove_range(chunks, at - 1);
}

uint32_t store_event_rows_take(struct store *store, enum table_id table, uint32_t count)
{
	uint32_t first = take_free(
		table == TABLE_EVENTS ? &store->free_events : &store->free_samples, count);

	if (!first) {
		first = store_new_rows(store, table, count);
		if (!first) {
			store_counters_add(store, COUNTER_LOST_STORAGE, 1);
			return 0;
		}
		store_commit(store, table);
	}
	/* Samples are counted per chunk: `left` are not free. */
	if (table == TABLE_SAMPLES)
		insert_range(&store->sample_chunks, samples_at(&store->sample_chunks, first),
			     (struct row_range){first, count, count});
	return first;
}

void store_event_rows_seal(struct store *store, uint32_t first, uint32_t count)
{
	if (count)
		insert_range(&store->sealed_events, store->sealed_events.count,
			     (struct row_range){first, count, first});
}

uint32_t store_event_rows_next(struct store *store, struct reserved_rows *rows, enum table_id table)
{
	uint32_t count = rows->count ? rows->count * CHUNK_ROWS_GROWTH : CHUNK_ROWS_FIRST;

	if (rows->next != rows->end)
		return rows->next++;
	if (table == TABLE_EVENTS && rows->end)
		store_event_rows_seal(store, rows->end - rows->count, rows->count);
	rows->count = count < CHUNK_ROWS_MAX ? count : CHUNK_ROWS_MAX;
	rows->next = store_event_rows_take(store, table, rows->count);
	rows->end = rows->next ? rows->next + rows->count : 0;
	return rows->next ? rows->next++ : 0;
}

void store_event_rows_give_back(struct store *store, struct reserved_rows *rows,
				enum table_id table)
{
	uint32_t first = rows->end - rows->count;

	if (!rows->end)
		return;
	if (table == TABLE_SAMPLES) {
		if (rows->next < rows->end)
			drop_samples(store, first, rows->end - rows->next);
	} else {
		store_event_rows_seal(store, first, rows->next - first);
		give_rows(&store->free_events, rows->next, rows->end - rows->next);
	}
	*rows = (struct reserved_rows){0};
}

/* ------------------------------------------------------------------ clearing */

static bool is_cleared(const struct store *store, const struct row_event *event)
{
	return store_epoch_rows(store)[event->epoch].flags & EPOCH_CLEARED;
}

/* True if its thread will write to it, or a phase that is kept has it. */
static bool is_needed(const struct store *store, const struct row_event *event)
{
	if (event->kind == EVENT_NONE) /* its thread had no use for it */
		return false;
	if (!is_cleared(store, event))
		return true;
	/* acquire: pairs with the release of the thread that ends it, which is its last store */
	return (event->kind == EVENT_SCOPE || event->kind == EVENT_LAUNCH ||
		event->kind == EVENT_KERNEL) &&
	       !__atomic_load_n(&event->end_ns, __ATOMIC_ACQUIRE);
}

static void drop_event(struct store *store, struct row_event *event)
{
	const struct row_sample *samples = profile_file_rows(&store->file, TABLE_SAMPLES);
	bool has_samples = event->kind == EVENT_SCOPE || event->kind == EVENT_LAUNCH;

	for (uint32_t at = has_samples ? event->link : 0, next; at; at = next) {
		next = samples[at].next;
		drop_samples(store, at, 1);
	}
	/* A reader of the file ignores the row from now on. */
	__atomic_store_n(&event->kind, EVENT_NONE, __ATOMIC_RELEASE);
	memset(event, 0, offsetof(struct row_event, kind));
}

/* The records of kernels of cleared phases do not count, so nothing is aligned with them. */
static void drop_spans(struct store *store)
{
	size_t left = 0;

	for (size_t i = 0; i < store->span_count; i++)
		if (!is_cleared(store, store_event_at(store, store->spans[i].first)))
			store->spans[left++] = store->spans[i];
	store->span_count = left;
}

void store_event_rows_clear(struct store *store)
{
	struct row_ranges *sealed = &store->sealed_events;
	size_t left = 0;

	drop_spans(store);
	for (size_t i = 0; i < sealed->count; i++) {
		struct row_range *chunk = &sealed->items[i];
		uint32_t end = chunk->first + chunk->count;

		while (chunk->left < end && !is_needed(store, store_event_at(store, chunk->left)))
			chunk->left++;
		if (chunk->left < end) {
			sealed->items[left++] = *chunk;
			continue;
		}
		for (uint32_t row = chunk->first; row < end; row++)
			drop_event(store, store_event_at(store, row));
		give_rows(&store->free_events, chunk->first, chunk->count);
	}
	sealed->count = left;
}
