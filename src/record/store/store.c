/* Store of one session: contexts, frames, kernels, counters. */
#include "record/store/store.h"

#include <stdio.h>

#include "base/array.h"
#include "base/message.h"
#include "model/load.h"
#include "record/store/store_rows.h"

void *store_append(struct store *store, enum table_id table, uint64_t rows)
{
	void *at = profile_file_append(&store->file, table, rows);

	if (!at && !store->is_full) {
		store->is_full = true;
		message("cannot extend %s: %s; data that does not fit is counted as lost, "
			"and the program continues",
			store->file.place.path ? store->file.place.path : "memory",
			profile_file_why(&store->file));
	}
	return at;
}

uint32_t store_new_rows(struct store *store, enum table_id table, uint64_t rows)
{
	uint64_t first = store->file.tables[table].rows;
	bool has_row_0 = first != 0;

	first += !has_row_0;
	return first + rows < UINT32_MAX && store_append(store, table, rows + !has_row_0)
		       ? (uint32_t)first
		       : 0;
}

/* Where an unused row links to the next one: readers do not look at this field of it. */
static uint32_t *link_of(const struct store *store, enum table_id table, uint32_t row)
{
	static const uint8_t offsets[TABLE_COUNT] = {
		[TABLE_CONFIGS] = offsetof(struct row_config, next),
		[TABLE_PCS] = offsetof(struct row_pc, offset),
		[TABLE_RUNS] = offsetof(struct row_run, next),
		[TABLE_DURATIONS] = offsetof(struct row_durations, next),
	};
	char *rows = profile_file_rows(&store->file, table);

	return (void *)(rows + (uint64_t)row * profile_row_bytes[table] + offsets[table]);
}

uint32_t store_new_row(struct store *store, enum table_id table)
{
	uint32_t row = store->unused[table];

	if (row) {
		store->unused[table] = *link_of(store, table, row);
		*link_of(store, table, row) = 0;
		return row;
	}
	row = store_new_rows(store, table, 1);
	if (!row)
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
	return row;
}

void store_free_row(struct store *store, enum table_id table, uint32_t row)
{
	size_t bytes = profile_row_bytes[table];

	memset((char *)profile_file_rows(&store->file, table) + row * bytes, 0, bytes);
	*link_of(store, table, row) = store->unused[table];
	store->unused[table] = row;
}

void store_free_ring(struct store *store, enum table_id table, uint32_t *last)
{
	uint32_t next;

	for (uint32_t at = last ? *last : 0; at; at = next == *last ? 0 : next) {
		next = *link_of(store, table, at);
		store_free_row(store, table, at);
	}
	if (last)
		*last = 0;
}

uint64_t store_context_count(const struct store *store)
{
	return store->file.tables[TABLE_NODES].rows - 1;
}

/* A string in an entry of `bytes`; 0 if there is no space. */
static uint32_t new_entry(struct store *store, const char *text, size_t length, size_t bytes)
{
	uint32_t id = store_new_rows(store, TABLE_STRINGS, bytes / 8);

	if (!id)
		return 0;
	string_write((char *)profile_file_rows(&store->file, TABLE_STRINGS) + id * 8ull, bytes,
		     text, length);
	store_commit(store, TABLE_STRINGS);
	return id;
}

uint32_t store_new_string(struct store *store, const char *text, size_t length)
{
	return length ? new_entry(store, text, length, string_entry_bytes(length)) : 0;
}

uint32_t store_string(struct store *store, uint32_t string)
{
	uint32_t length;
	const char *text = frames_text(string, &length);
	uint32_t *known = length ? store_map_reach(&store->string_of_string, string) : NULL;

	if (known && !*known)
		*known = store_new_string(store, text, length);
	return known ? *known : 0;
}

/* A copy of a frame's name in its own entry, as large as the frame's; 0: no space. */
static uint32_t new_name(struct store *store, uint32_t frame)
{
	uint32_t length;
	const char *text = frames_text(frames_get(frame)->name, &length);

	return new_entry(store, text, length, reused_names_of(frame)->capacity);
}

bool store_rename(struct store *store, uint32_t frame, bool has_moved)
{
	const uint32_t *known = store_map_at(&store->frame_of_frame, frame);
	struct row_frame *row = profile_file_rows(&store->file, TABLE_FRAMES);
	uint32_t length;
	const char *text = frames_text(frames_get(frame)->name, &length);

	if (!known || !*known)
		return true;
	row += *known;
	if (!has_moved) {
		/* Only cleared phases have used the name, so no reader's profile contains it. */
		string_write((char *)profile_file_rows(&store->file, TABLE_STRINGS) +
				     (uint64_t)row->name * 8,
			     reused_names_of(frame)->capacity, text, length);
		return true;
	}
	uint32_t name = new_name(store, frame);
	if (name)
		__atomic_store_n(&row->name, name, __ATOMIC_RELEASE);
	return name != 0;
}

/* The file's copy of a process-wide frame; 0 if there is no space. */
static uint32_t frame_of(struct store *store, uint32_t frame)
{
	uint32_t *known = store_map_reach(&store->frame_of_frame, frame);
	const struct row_frame *source = frames_get(frame);
	struct row_frame row = {.kind = source->kind, .line = source->line};

	if (!known || *known)
		return known ? *known : 0;
	row.name = reused_names_of(frame)->capacity ? new_name(store, frame)
						    : store_string(store, source->name);
	row.file = store_string(store, source->file);
	if ((!row.name && source->name) || (!row.file && source->file))
		return 0; /* a frame without its name would be wrong, not just missing */
	uint32_t index = store_new_rows(store, TABLE_FRAMES, 1);
	if (!index)
		return 0;
	store_frame_rows(store)[index] = row;
	store_commit(store, TABLE_FRAMES);
	return *known = index;
}

uint32_t store_node(struct store *store, uint32_t context, uint32_t epoch)
{
	uint32_t *map = store->node_of_context.base;

	store_counters_add_folded(store);
	if (!store_map_reach(&store->node_of_context, context)) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return NODE_NONE;
	}
	if (context == PROTON_CONTEXT_ROOT || map[context])
		return map[context];
	/* Each iteration makes the outermost missing node: paths are short and this is rare. */
	while (!map[context]) {
		uint32_t missing = context;
		uint32_t parent = context_tree_get(missing).parent;

		while (parent != PROTON_CONTEXT_ROOT && !map[parent]) {
			missing = parent;
			parent = context_tree_get(missing).parent;
		}
		uint32_t frame = frame_of(store, context_tree_get(missing).frame);
		if (!frame) {
			store_counters_add(store, COUNTER_LOST_STORAGE, 1);
			return NODE_NONE;
		}
		uint32_t row = store_new_row(store, TABLE_NODES);
		if (!row)
			return NODE_NONE;
		store_node_rows(store)[row] = (struct row_node){
			.parent = map[parent],
			.frame = frame,
			.first_epoch = epoch,
			.last_epoch = epoch,
		};
		store_commit(store, TABLE_NODES);
		/* release: store_find_node() finds the node counted */
		__atomic_store_n(&map[missing], row, __ATOMIC_RELEASE);
	}
	return map[context];
}

uint32_t store_find_node(const struct store *store, uint32_t context)
{
	const uint32_t *node = store_map_at(&store->node_of_context, context);

	return node ? __atomic_load_n(node, __ATOMIC_ACQUIRE) : 0;
}

uint32_t store_make_node(struct store *store, uint32_t context, uint32_t epoch)
{
	uint32_t node = store_epoch_is_cleared(store, epoch) ? NODE_NONE
							     : store_node(store, context, epoch);

	return node == NODE_NONE ? 0 : node;
}

/*
 * Notes that `node` was entered in the current epoch. The node stores the first and the last such
 * epoch. When the last one changes, the previous one gets its own row, unless it is also the first.
 */
static void mark_entered(struct store *store, uint32_t node)
{
	struct row_node *row = &store_node_rows(store)[node];

	if (row->last_epoch == store->epoch)
		return;
	bool first_is_cleared = store_epoch_rows(store)[row->first_epoch].flags & EPOCH_CLEARED;
	bool last_is_cleared = store_epoch_rows(store)[row->last_epoch].flags & EPOCH_CLEARED;
	if (first_is_cleared) {
		row->first_epoch = last_is_cleared ? store->epoch : row->last_epoch;
	} else if (row->last_epoch != row->first_epoch && !last_is_cleared) {
		uint32_t value =
			store_lists_new(store, LIST_VALUES, METRIC_ENTERED, row->last_epoch);

		if (value)
			store_lists_link(store, LIST_VALUES, node, value);
	}
	row->last_epoch = store->epoch;
}

void store_enter(struct store *store, uint32_t context)
{
	uint32_t node = store_node(store, context, store->epoch);

	if (node != NODE_NONE)
		mark_entered(store, node);
}

bool store_epoch_is_cleared(struct store *store, uint32_t epoch)
{
	if (!(store_epoch_rows(store)[epoch].flags & (EPOCH_CLEARED | EPOCH_CLOSED)))
		return false;
	store_counters_add(store, COUNTER_LOST_PHASE, 1);
	return true;
}

/* Which GPU of which machine it is: device 0 of each rank may be another one. */
static void store_device_info(struct store *store, const struct device *device)
{
	char key[32];

	snprintf(key, sizeof(key), "gpu%u_uuid", device->id);
	if (*device->uuid)
		store_info(store, key, device->uuid);
	snprintf(key, sizeof(key), "gpu%u_pci", device->id);
	if (*device->pci)
		store_info(store, key, device->pci);
}

uint32_t store_device(struct store *store, uint32_t device)
{
	uint64_t index = store->file.tables[TABLE_DEVICES].rows;

	if (device < DEVICE_MAX && store->device_rows[device])
		return store->device_rows[device] - 1;
	const struct device *source = device < DEVICE_MAX ? devices_get(device) : NULL;
	if (!source)
		return UINT32_MAX;
	struct row_device *row = profile_file_append(&store->file, TABLE_DEVICES, 1);
	if (!row)
		return UINT32_MAX;
	*row = (struct row_device){
		.type = store_new_string(store, source->type, strlen(source->type)),
		.id = source->id,
		.arch = store_new_string(store, source->arch, strlen(source->arch)),
		.name = store_new_string(store, source->name, strlen(source->name)),
		.clock_khz = source->clock_khz,
		.memory_clock_khz = source->memory_clock_khz,
		.bus_width_bits = source->bus_width_bits,
		.processors = source->processors,
	};
	store_commit(store, TABLE_DEVICES);
	store_device_info(store, source);
	/* release: store_add_kernel() finds the device counted */
	__atomic_store_n(&store->device_rows[device], (uint32_t)index + 1, __ATOMIC_RELEASE);
	return (uint32_t)index;
}

/* Not "bytes": that is memory traffic, from which the viewer computes utilization. */
static void add_memory_bytes(struct store *store, uint32_t context, uint32_t epoch, uint64_t bytes)
{
	struct proton_metric metric = {
		.name = "memory_bytes",
		.type = PROTON_METRIC_INT64,
		.value.int64 = (int64_t)bytes,
	};
	uint32_t name = metric_names_add(metric.name);

	if (name != METRIC_NAME_NONE)
		store_metric(store, context, epoch, name, &metric, NULL);
}

void store_kernel(struct store *store, uint32_t context, uint32_t scopes, uint32_t epoch,
		  const struct execution *execution)
{
	if (execution->end_ns < execution->start_ns) {
		store_counters_add(store, COUNTER_LOST_TIME, 1);
		return;
	}
	if (store_epoch_is_cleared(store, epoch))
		return;
	uint32_t node = store_node(store, context, epoch);
	uint32_t device_row = node == NODE_NONE ? UINT32_MAX
						: store_device(store, execution->device);
	if (device_row == UINT32_MAX) {
		if (node != NODE_NONE)
			store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	uint32_t at = store_lists_find(store, LIST_KERNELS, node, device_row, epoch);
	if (!at) {
		at = store_lists_new(store, LIST_KERNELS, device_row, epoch);
		if (!at)
			return;
		store_lists_link(store, LIST_KERNELS, node, at);
	}
	store_add_execution(store, at, execution->end_ns - execution->start_ns);
	store_config(store, at, &execution->config, execution->end_ns - execution->start_ns);
	store_counters_add_one(store, execution->is_memory ? COUNTER_MEMORY : COUNTER_KERNELS,
			       store->is_shared, store->stripe);
	if (!execution->is_memory)
		store_collectives_kernel(store, node, scopes, epoch,
					 execution->end_ns - execution->start_ns);
	if (execution->function)
		store_samples_run(store, at, execution->function, execution->sampled_ns);
	if (execution->is_memory)
		add_memory_bytes(store, context, epoch, execution->bytes);
	if (store->trace_serial && !execution->is_of_host)
		store_event_add_device(store, node, device_row, epoch, execution);
}

/* The row with `key`; NULL if there is none. There are about a dozen. */
static struct row_info *find_info(const struct store *store, const char *key)
{
	struct row_info *rows = profile_file_rows(&store->file, TABLE_INFO);
	const char *strings = profile_file_rows(&store->file, TABLE_STRINGS);

	for (uint64_t i = 0; i < store->file.tables[TABLE_INFO].rows; i++)
		if (strcmp(strings + (uint64_t)rows[i].key * 8 + 4, key) == 0)
			return &rows[i];
	return NULL;
}

void store_info(struct store *store, const char *key, const char *value)
{
	struct row_info *row = find_info(store, key);

	if (row) {
		row->value = store_new_string(store, value, strlen(value));
		return;
	}
	row = profile_file_append(&store->file, TABLE_INFO, 1);
	if (!row)
		return;
	row->key = store_new_string(store, key, strlen(key));
	row->value = store_new_string(store, value, strlen(value));
	store_commit(store, TABLE_INFO);
}

/* ------------------------------------------------------------------ init and fini */

#define MAP_RESERVE (4ull << 30) /* enough for 2^30 contexts or kernels */
#define PLACES_RESERVE (8ull << 30)
#define LATER 0 /* with the first window */

static const struct {
	size_t offset; /* a struct region is there */
	uint64_t limit;
} spaces[] = {
	{offsetof(struct store, node_of_context), MAP_RESERVE},
	{offsetof(struct store, frame_of_frame), MAP_RESERVE},
	{offsetof(struct store, string_of_string), MAP_RESERVE},
	{offsetof(struct store, config_of_kernel), MAP_RESERVE},
	{offsetof(struct store, metric_of_name), 1 << 20},
	{offsetof(struct store, places[LIST_VALUES]), PLACES_RESERVE},
	{offsetof(struct store, places[LIST_KERNELS]), PLACES_RESERVE},
	{offsetof(struct store, epoch_rows), PLACES_RESERVE / 8},
	{offsetof(struct store, collectives.series_of_node), MAP_RESERVE},
	{offsetof(struct store, collectives.kind_of_frame), MAP_RESERVE / 4},
	{offsetof(struct store, samples.function_rows), FUNCTION_MAX * sizeof(uint32_t)},
	{offsetof(struct store, samples.last_runs), MAP_RESERVE},
	{offsetof(struct store, windows.seen), LATER},
};
_Static_assert(LIMITS_METRICS * sizeof(uint32_t) <= 1 << 20, "space of metric_of_name");

static struct region *space_at(struct store *store, size_t i)
{
	return (void *)((char *)store + spaces[i].offset);
}

int store_init(struct store *store, const char *path, bool is_own, struct proton_error *err)
{
	*store = (struct store){0};
	int status = profile_file_create(&store->file, path, is_own, err);
	if (status != PROTON_OK)
		return status;
	for (int i = 0; i < LIMITS_COUNTS; i++)
		store->counted[i] = name_limits_counted((enum limits_count)i);
	for (size_t i = 0; status == PROTON_OK && i < ARRAY_LENGTH(spaces); i++)
		if (spaces[i].limit)
			status = region_reserve(space_at(store, i), spaces[i].limit, 1 << 20, 1,
						err);
	if (status == PROTON_OK && store_counters_init(store))
		store_phase_begin(store, 0);
	if (status == PROTON_OK && !store->file.tables[TABLE_EPOCHS].rows)
		status = err_errno(err, store->file.errnum, "cannot create the profile");
	if (status == PROTON_OK)
		profile_file_mark(&store->file, PROFILE_FILE_RECORDING, 0);
	else
		store_fini(store, true);
	return status;
}

void store_fini(struct store *store, bool remove_file)
{
	profile_file_close(&store->file, remove_file);
	for (size_t i = 0; i < ARRAY_LENGTH(spaces); i++)
		region_release(space_at(store, i));
	hash_table_fini(&store->samples.pcs);
	FREE_ALL(store->collectives.series, store->free_events.items, store->free_samples.items,
		 store->sealed_events.items, store->sample_chunks.items, store->spans);
	*store = (struct store){.file = {.place = {.fd = -1}}};
}

int store_profile(const struct store *store, uint32_t phase, struct profile **out,
		  struct proton_error *err)
{
	struct profile_view view;

	if (profile_file_is_truncated(&store->file))
		return err_set(err, PROTON_E_IO, "another program has truncated %s",
			       store->file.place.path);
	profile_file_view(&store->file, &view);
	return profile_load_view(&view, phase, out, err);
}
