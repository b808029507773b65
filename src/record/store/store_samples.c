/* PC samples in a store. */
#include "record/store/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "record/store/devices.h"
#include "record/store/store_rows.h"

#define MAP_RESERVE (4ull << 30)

static char reasons[SAMPLE_REASONS_MAX][128];
static _Atomic uint32_t reason_count;

/* Only the thread that configures the vendor's library adds reasons. */
uint32_t store_samples_add_reason(const char *name)
{
	uint32_t count = atomic_load_explicit(&reason_count, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		if (strncmp(reasons[i], name, sizeof(reasons[i]) - 1) == 0)
			return i;
	if (count == SAMPLE_REASONS_MAX)
		return UINT32_MAX;
	snprintf(reasons[count], sizeof(reasons[count]), "%s", name);
	atomic_store_explicit(&reason_count, count + 1, memory_order_release);
	return count;
}

static struct row_pc *pc_rows(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_PCS);
}

static struct row_run *run_rows(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_RUNS);
}

/* Makes row 0 of the tables and the maps, when the first sample or run comes. */
static bool prepare(struct store *store)
{
	static const enum table_id tables[] = {TABLE_CODE_OBJECTS, TABLE_FUNCTIONS, TABLE_PCS,
					       TABLE_RUNS,         TABLE_BLOBS,     TABLE_SOURCES};
	struct store_samples *samples = &store->samples;

	if (samples->is_ready)
		return true;
	if (!samples->function_rows.base &&
	    region_reserve(&samples->function_rows, FUNCTION_MAX * sizeof(uint32_t), 1 << 16, 1,
			   NULL) != PROTON_OK)
		return false;
	if (!samples->last_runs.base &&
	    region_reserve(&samples->last_runs, MAP_RESERVE, 1 << 20, 1, NULL) != PROTON_OK)
		return false;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (store->file.tables[tables[i]].rows)
			continue;
		if (!store_append(store, tables[i], 1))
			return false;
		store_commit(store, tables[i]);
	}
	samples->is_ready = true;
	return true;
}

void store_samples_fini(struct store *store)
{
	free(store->samples.slots);
	region_release(&store->samples.function_rows);
	region_release(&store->samples.last_runs);
}

/* ------------------------------------------------------------------ functions and code objects */

/* The first word of a copy of the bytes in TABLE_BLOBS; 0: no space. */
static uint32_t new_blob(struct store *store, const void *bytes, uint64_t length)
{
	uint64_t words = (length + 7) / 8;
	uint64_t first = store->file.tables[TABLE_BLOBS].rows;
	void *at = first + words < UINT32_MAX ? store_append(store, TABLE_BLOBS, words) : NULL;

	if (!at)
		return 0;
	memcpy(at, bytes, length);
	store_commit(store, TABLE_BLOBS);
	return (uint32_t)first;
}

struct filling {
	struct store *store;
	struct row_code_object *row;
};

static void fill_code_object(void *user, const void *bytes, size_t length)
{
	struct filling *filling = user;
	struct store *store = filling->store;

	filling->row->bytes = length;
	if (store->samples.code_object_bytes + length > CODE_OBJECTS_PROFILE_MAX_BYTES) {
		filling->row->flags = BLOB_LEFT_OUT;
		return;
	}
	filling->row->blob = new_blob(store, bytes, length);
	if (filling->row->blob)
		store->samples.code_object_bytes += length;
	else
		filling->row->flags = BLOB_LEFT_OUT;
}

/* Stores the content of a code object if it is there. */
static void read_code_object(struct store *store, struct row_code_object *row)
{
	struct filling filling = {store, row};
	enum code_object_state state = code_objects_read(row->crc, fill_code_object, &filling);

	if (state == CODE_OBJECT_TOO_LARGE)
		row->flags = BLOB_LEFT_OUT;
	else if (state == CODE_OBJECT_UNKNOWN)
		store->samples.has_missing = true;
}

void store_samples_find_code_objects(struct store *store)
{
	struct row_code_object *rows = profile_file_rows(&store->file, TABLE_CODE_OBJECTS);
	uint32_t generation = code_objects_generation();

	if (!store->samples.has_missing || generation == store->samples.code_object_generation)
		return;
	store->samples.code_object_generation = generation;
	store->samples.has_missing = false;
	for (uint64_t i = 1; i < store->file.tables[TABLE_CODE_OBJECTS].rows; i++)
		if (!rows[i].blob && !rows[i].flags)
			read_code_object(store, &rows[i]);
}

/* The row of a CRC, made if new; 0: no space. */
static uint32_t code_object_row(struct store *store, uint64_t crc)
{
	struct row_code_object *rows = profile_file_rows(&store->file, TABLE_CODE_OBJECTS);
	uint32_t row = 1;

	while (row < store->file.tables[TABLE_CODE_OBJECTS].rows && rows[row].crc != crc)
		row++;
	if (row < store->file.tables[TABLE_CODE_OBJECTS].rows)
		return row;
	row = store_new_row(store, TABLE_CODE_OBJECTS);
	if (!row)
		return 0;
	rows[row].crc = crc;
	read_code_object(store, &rows[row]);
	store_commit(store, TABLE_CODE_OBJECTS);
	return row;
}

/* The row of a process-wide function; 0: no space. */
static uint32_t function_row(struct store *store, uint32_t function)
{
	uint32_t *map = store->samples.function_rows.base;
	const struct gpu_function *source = gpu_functions_get(function);
	uint64_t count = store->file.tables[TABLE_FUNCTIONS].rows;
	struct row_function *row;

	if (!region_reaches(&store->samples.function_rows, (function + 1ull) * sizeof(*map)))
		return 0;
	if (map[function])
		return map[function];
	row = store_append(store, TABLE_FUNCTIONS, 1);
	if (!row)
		return 0;
	row->crc = source->crc;
	row->name = store_new_string(store, source->name, source->length);
	store_commit(store, TABLE_FUNCTIONS);
	map[function] = (uint32_t)count;
	return map[function];
}

/* ------------------------------------------------------------------ samples */

static uint64_t pc_hash(const struct row_pc *row)
{
	return hash_u64((uint64_t)row->function << 32 | row->offset) ^
	       hash_u64((uint64_t)row->node << 32 | row->epoch) * 31 ^ hash_u64(row->reason);
}

static bool is_same_pc(const struct row_pc *a, const struct row_pc *b)
{
	return a->function == b->function && a->offset == b->offset && a->reason == b->reason &&
	       a->epoch == b->epoch && a->node == b->node;
}

/* The slot of an equal row, or the free slot for it. */
static uint32_t *pc_slot(const struct store *store, const struct row_pc *row)
{
	const struct store_samples *samples = &store->samples;
	const struct row_pc *rows = pc_rows(store);
	uint64_t i = pc_hash(row);

	while (samples->slots[i & (samples->slot_count - 1)] &&
	       !is_same_pc(&rows[samples->slots[i & (samples->slot_count - 1)]], row))
		i++;
	return &samples->slots[i & (samples->slot_count - 1)];
}

/* Makes an index over all used rows. */
static bool index_pcs(struct store *store)
{
	struct store_samples *samples = &store->samples;
	const struct row_pc *rows = pc_rows(store);
	uint32_t count = 4096;
	uint32_t *slots;

	while (count < store->file.tables[TABLE_PCS].rows * 4)
		count *= 2;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return false;
	free(samples->slots);
	samples->slots = slots;
	samples->slot_count = count;
	samples->slots_used = 0;
	for (uint32_t i = 1; i < store->file.tables[TABLE_PCS].rows; i++) {
		if (!rows[i].function)
			continue;
		*pc_slot(store, &rows[i]) = i;
		samples->slots_used++;
	}
	return true;
}

/* The row like `key`, made if new; 0: no space. */
static uint32_t pc_row(struct store *store, const struct row_pc *key)
{
	struct store_samples *samples = &store->samples;
	struct row_pc *rows = pc_rows(store);
	uint32_t *slot, row;

	if (samples->slots_used * 2 >= samples->slot_count && !index_pcs(store))
		return 0;
	slot = pc_slot(store, key);
	if (*slot)
		return *slot;
	row = samples->free_pc;
	if (row)
		samples->free_pc = rows[row].offset;
	else
		row = store_new_row(store, TABLE_PCS);
	if (!row)
		return 0;
	rows[row] = *key;
	store_commit(store, TABLE_PCS);
	*slot = row;
	samples->slots_used++;
	return row;
}

static uint32_t reason_string(struct store *store, uint32_t reason)
{
	uint32_t *string = &store->samples.reasons[reason];

	if (!*string)
		*string = store_new_string(store, reasons[reason], strlen(reasons[reason]));
	return *string;
}

bool store_samples_add(struct store *store, uint32_t context, uint32_t epoch,
		       const struct pc_sample *sample)
{
	struct row_pc key = {.offset = sample->offset, .epoch = epoch};
	struct row_function *function;
	uint32_t row;

	if (!prepare(store))
		return false;
	key.function = function_row(store, sample->function);
	function = (struct row_function *)profile_file_rows(&store->file, TABLE_FUNCTIONS) +
		   key.function;
	if (key.function && function->crc && !function->code_object)
		function->code_object = code_object_row(store, function->crc);
	key.reason = reason_string(store, sample->reason);
	if (context != PROTON_CONTEXT_ROOT)
		key.node = store_node(store, context, epoch);
	row = key.function && key.node != NODE_NONE ? pc_row(store, &key) : 0;
	if (!row)
		return false;
	pc_rows(store)[row].samples += sample->samples;
	pc_rows(store)[row].not_issued += sample->not_issued;
	return true;
}

void store_samples_drop_epoch(struct store *store, uint32_t epoch)
{
	struct row_pc *rows = pc_rows(store);
	bool is_changed = false;

	for (uint32_t i = 1; i < store->file.tables[TABLE_PCS].rows; i++) {
		if (!rows[i].function || rows[i].epoch != epoch)
			continue;
		rows[i] = (struct row_pc){.offset = store->samples.free_pc};
		store->samples.free_pc = i;
		is_changed = true;
	}
	if (is_changed && !index_pcs(store)) {
		store->samples.slot_count = 0; /* it is made with the next row */
		store->samples.slots_used = 0;
	}
}

/* ------------------------------------------------------------------ runs */

/* The row of `function` in the kernel's list, made if new; 0: no space. */
static uint32_t run_row(struct store *store, uint32_t kernel, uint32_t last, uint32_t function)
{
	struct row_run *rows = run_rows(store);
	uint32_t at = last;

	while (last && rows[at].function != function) {
		at = rows[at].next;
		if (at == last || !at)
			break;
	}
	if (last && rows[at].function == function)
		return at;
	at = store->samples.free_run;
	if (at)
		store->samples.free_run = rows[at].next;
	else
		at = store_new_row(store, TABLE_RUNS);
	if (!at)
		return 0;
	rows[at] = (struct row_run){
		.kernel = kernel, .function = function, .next = last ? rows[last].next : at};
	store_commit(store, TABLE_RUNS);
	if (last)
		rows[last].next = at;
	return at;
}

/* Where the latest run of a kernel row is stored; NULL: there is no space. */
static uint32_t *last_run(struct store *store, uint32_t kernel)
{
	uint32_t *map = store->samples.last_runs.base;

	return region_reaches(&store->samples.last_runs, (kernel + 1ull) * sizeof(*map))
		       ? &map[kernel]
		       : NULL;
}

void store_samples_run(struct store *store, uint32_t kernel, uint32_t function, uint64_t sampled_ns)
{
	uint32_t *last = prepare(store) ? last_run(store, kernel) : NULL;
	uint32_t row = last ? function_row(store, function) : 0;
	uint32_t at = row ? run_row(store, kernel, *last, row) : 0;

	if (!at) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	*last = at;
	run_rows(store)[at].sampled_ns += sampled_ns;
}

void store_samples_drop_runs(struct store *store, uint32_t kernel)
{
	struct row_run *rows = run_rows(store);
	uint32_t *last = store->samples.is_ready ? last_run(store, kernel) : NULL;
	uint32_t at;

	if (!last || !*last)
		return;
	at = *last;
	do {
		uint32_t next = rows[at].next;

		rows[at] = (struct row_run){.next = store->samples.free_run};
		store->samples.free_run = at;
		at = next;
	} while (at && at != *last);
	*last = 0;
}

/* ------------------------------------------------------------------ sources */

void store_samples_source(struct store *store, const char *path, const void *bytes, uint64_t length,
			  uint64_t hash)
{
	struct row_source *row;

	if (!prepare(store))
		return;
	row = store_append(store, TABLE_SOURCES, 1);
	if (!row)
		return;
	row->path = store_new_string(store, path, strlen(path));
	row->bytes = length;
	row->hash = hash;
	row->blob = bytes && length ? new_blob(store, bytes, length) : 0;
	if (length && !row->blob)
		row->flags = BLOB_LEFT_OUT;
	store_commit(store, TABLE_SOURCES);
}
