/* PC samples in a store. */
#include "record/store/store.h"

#include <stdio.h>

#include "base/hash.h"
#include "record/store/devices.h"
#include "record/store/store_rows.h"

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

/* ------------------------------------------------------------------ functions and code objects */

/* The first word of a copy of the bytes in TABLE_BLOBS; 0: no space. */
static uint32_t new_blob(struct store *store, const void *bytes, uint64_t length)
{
	uint32_t first = store_new_rows(store, TABLE_BLOBS, (length + 7) / 8);

	if (!first)
		return 0;
	memcpy((uint64_t *)profile_file_rows(&store->file, TABLE_BLOBS) + first, bytes, length);
	store_commit(store, TABLE_BLOBS);
	return first;
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

	for (; row < store->file.tables[TABLE_CODE_OBJECTS].rows; row++)
		if (rows[row].crc == crc)
			return row;
	row = store_new_row(store, TABLE_CODE_OBJECTS);
	if (!row)
		return 0;
	rows = profile_file_rows(&store->file, TABLE_CODE_OBJECTS);
	rows[row].crc = crc;
	read_code_object(store, &rows[row]);
	store_commit(store, TABLE_CODE_OBJECTS);
	return row;
}

/* The row of a process-wide function; 0: no space. */
static uint32_t function_row(struct store *store, uint32_t function)
{
	uint32_t *known = store_map_reach(&store->samples.function_rows, function);
	const struct gpu_function *source = gpu_functions_get(function);

	if (!known || *known)
		return known ? *known : 0;
	uint32_t index = store_new_rows(store, TABLE_FUNCTIONS, 1);
	if (!index)
		return 0;
	struct row_function *row = &store_function_rows(store)[index];
	row->crc = source->crc;
	row->name = store_new_string(store, source->name, source->length);
	store_commit(store, TABLE_FUNCTIONS);
	return *known = index;
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

/* The row like `key`, made if new; 0: no space. */
static uint32_t pc_row(struct store *store, const struct row_pc *key)
{
	struct hash_table *pcs = &store->samples.pcs;
	uint64_t hash = pc_hash(key);
	uint64_t next = hash;
	uint32_t row;

	do
		row = hash_table_next(pcs, hash, &next);
	while (row && !is_same_pc(&store_pc_rows(store)[row], key));
	if (row || !hash_table_reserve(pcs, 1))
		return row;
	row = store_new_row(store, TABLE_PCS);
	if (!row)
		return 0;
	store_pc_rows(store)[row] = *key;
	store_commit(store, TABLE_PCS);
	hash_table_add(pcs, hash, row);
	return row;
}

bool store_samples_add(struct store *store, uint32_t context, uint32_t epoch,
		       const struct pc_sample *sample)
{
	struct row_pc key = {.offset = sample->offset, .epoch = epoch};
	uint32_t *reason = &store->samples.reasons[sample->reason];

	key.function = function_row(store, sample->function);
	if (key.function) {
		struct row_function *function = &store_function_rows(store)[key.function];

		if (function->crc && !function->code_object)
			function->code_object = code_object_row(store, function->crc);
	}
	if (!*reason)
		*reason = store_new_string(store, reasons[sample->reason],
					   strlen(reasons[sample->reason]));
	key.reason = *reason;
	if (context != PROTON_CONTEXT_ROOT)
		key.node = store_node(store, context, epoch);
	uint32_t row = key.function && key.node != NODE_NONE ? pc_row(store, &key) : 0;
	if (!row)
		return false;
	store_pc_rows(store)[row].samples += sample->samples;
	store_pc_rows(store)[row].not_issued += sample->not_issued;
	return true;
}

void store_samples_drop_epoch(struct store *store, uint32_t epoch)
{
	struct row_pc *rows = store_pc_rows(store);

	hash_table_clear(&store->samples.pcs);
	for (uint32_t i = 1; i < store->file.tables[TABLE_PCS].rows; i++) {
		if (rows[i].function && rows[i].epoch == epoch)
			store_free_row(store, TABLE_PCS, i);
		else if (rows[i].function) /* there is space: it was in the table */
			hash_table_add(&store->samples.pcs, pc_hash(&rows[i]), i);
	}
}

/* ------------------------------------------------------------------ runs */

/* The row of `function` in the kernel's circular list, made if new; 0: no space. */
static uint32_t run_row(struct store *store, uint32_t kernel, uint32_t last, uint32_t function)
{
	struct row_run *rows = store_run_rows(store);
	uint32_t at = last;

	while (at && rows[at].function != function) {
		at = rows[at].next;
		if (at == last)
			at = 0;
	}
	if (at)
		return at;
	at = store_new_row(store, TABLE_RUNS);
	if (!at)
		return 0;
	rows = store_run_rows(store);
	rows[at] = (struct row_run){
		.kernel = kernel, .function = function, .next = last ? rows[last].next : at};
	store_commit(store, TABLE_RUNS);
	if (last)
		rows[last].next = at;
	return at;
}

void store_samples_run(struct store *store, uint32_t kernel, uint32_t function, uint64_t sampled_ns)
{
	uint32_t *last = store_map_reach(&store->samples.last_runs, kernel);
	uint32_t row = last ? function_row(store, function) : 0;
	uint32_t at = row ? run_row(store, kernel, *last, row) : 0;

	if (!at) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	*last = at;
	store_run_rows(store)[at].sampled_ns += sampled_ns;
}

/* ------------------------------------------------------------------ sources */

void store_samples_source(struct store *store, const char *path, const void *bytes, uint64_t length,
			  uint64_t hash)
{
	uint32_t index = store_new_rows(store, TABLE_SOURCES, 1);
	struct row_source *row = profile_file_rows(&store->file, TABLE_SOURCES);

	if (!index)
		return;
	row += index;
	row->path = store_new_string(store, path, strlen(path));
	row->bytes = length;
	row->hash = hash;
	row->blob = bytes && length ? new_blob(store, bytes, length) : 0;
	if (length && !row->blob)
		row->flags = BLOB_LEFT_OUT;
	store_commit(store, TABLE_SOURCES);
}
