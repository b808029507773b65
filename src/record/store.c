/* What one session has recorded. See store.h. */
#include "record/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/note.h"
#include "model/load.h"
#include "record/devices.h"
#include "record/frames.h"
#include "record/metric_names.h"

#define NODE_NONE UINT32_MAX
#define MAP_RESERVE (16ull << 30)

static const struct {
	const char *name;
	bool is_loss;
} counters[COUNTER_COUNT] = {
	[COUNTER_KERNELS] = {"kernels", false},
	[COUNTER_METRICS] = {"metric values", false},
	[COUNTER_LOST_STORAGE] = {"lost: no room for the profile", true},
	[COUNTER_LOST_TIME] = {"lost: kernel with an impossible time", true},
	[COUNTER_LOST_PHASE] = {"lost: recorded after its phase was cleared", true},
	[COUNTER_LOST_TYPE] = {"lost: metric value of another type than before", true},
};

const char *store_counter_name(enum counter counter)
{
	return counters[counter].name;
}

bool store_counter_is_loss(enum counter counter)
{
	return counters[counter].is_loss;
}

/* Table access: rows never move, so the pointers stay good. */
static struct row_node *nodes(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_NODES);
}

static struct row_value *values(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_VALUES);
}

static struct row_kernel *kernels(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_KERNELS);
}

static struct row_epoch *epochs(const struct store *store)
{
	return profile_file_rows(&store->file, TABLE_EPOCHS);
}

/*
 * The index of a new zeroed row of `table`; 0 when there is no room, which is said once. The caller
 * fills the row, commits the table and only then links the row to others: a killed process leaves
 * no row half made.
 */
static uint32_t new_row(struct store *store, enum table_id table)
{
	uint64_t index = store->file.tables[table].rows;

	if (index >= UINT32_MAX || !profile_file_append(&store->file, table, 1)) {
		if (!store->is_full) {
			store->is_full = true;
			note("cannot record more into %s: %s; the program goes on",
			     store->file.path ? store->file.path : "memory",
			     index >= UINT32_MAX ? "too many rows" : strerror(store->file.errnum));
		}
		store_count(store, COUNTER_LOST_STORAGE, 1);
		return 0;
	}
	return (uint32_t)index;
}

static void commit(struct store *store, enum table_id table)
{
	profile_file_commit(&store->file, table);
}

void store_count(struct store *store, enum counter counter, uint64_t more)
{
	struct row_counter *row = profile_file_rows(&store->file, TABLE_COUNTERS);

	row[counter].value += more;
}

uint64_t store_counter(const struct store *store, enum counter counter)
{
	const struct row_counter *row = profile_file_rows(&store->file, TABLE_COUNTERS);

	return row[counter].value;
}

uint64_t store_context_count(const struct store *store)
{
	return store->file.tables[TABLE_NODES].rows - 1;
}

/* Copies a string into the file; no interning here, callers remember what they stored. */
static uint32_t new_string(struct store *store, const char *text, size_t length)
{
	uint64_t rows = string_entry_bytes(length) / 8;
	uint64_t id = store->file.tables[TABLE_STRINGS].rows;
	uint32_t stored = (uint32_t)length;
	char *at;

	if (!length)
		return 0;
	at = id < UINT32_MAX - rows ? profile_file_append(&store->file, TABLE_STRINGS, rows) : NULL;
	if (!at)
		return 0;
	memcpy(at, &stored, sizeof(stored));
	memcpy(at + 4, text, length);
	commit(store, TABLE_STRINGS);
	return (uint32_t)id;
}

/* The file's copy of a process-wide string. */
static uint32_t string_of(struct store *store, uint32_t string)
{
	uint32_t *map = store->string_of_string.base;
	uint32_t length;
	const char *text = frames_text(string, &length);

	if (!length || (uint64_t)string * sizeof(*map) >= store->string_of_string.bytes)
		return 0;
	if (!map[string])
		map[string] = new_string(store, text, length);
	return map[string];
}

static uint32_t frame_of(struct store *store, uint32_t frame)
{
	uint32_t *map = store->frame_of_frame.base;
	const struct row_frame *source = frames_get(frame);
	struct row_frame *row;
	uint64_t index;

	if ((uint64_t)(frame + 1) * sizeof(*map) > store->frame_of_frame.bytes)
		return 0;
	if (map[frame])
		return map[frame];
	index = store->file.tables[TABLE_FRAMES].rows;
	row = profile_file_append(&store->file, TABLE_FRAMES, 1);
	if (!row)
		return 0;
	*row = (struct row_frame){
		.kind = source->kind,
		.name = string_of(store, source->name),
		.file = string_of(store, source->file),
		.line = source->line,
	};
	commit(store, TABLE_FRAMES);
	map[frame] = (uint32_t)index;
	return map[frame];
}

/* The node of `context`, made together with the ancestors it lacks; NODE_NONE when there is no room. */
static uint32_t node_of(struct store *store, uint32_t context)
{
	uint32_t *map = store->node_of_context.base;

	if ((uint64_t)(context + 1) * sizeof(*map) > store->node_of_context.bytes) {
		store_count(store, COUNTER_LOST_STORAGE, 1);
		return NODE_NONE;
	}
	if (context == PROTON_CONTEXT_ROOT || map[context])
		return map[context];
	/* Each turn makes the outermost node that is missing: paths are short and this is rare. */
	while (!map[context]) {
		uint32_t missing = context;
		uint32_t parent = frames_context(missing).parent;
		uint32_t row;

		while (parent != PROTON_CONTEXT_ROOT && !map[parent]) {
			missing = parent;
			parent = frames_context(missing).parent;
		}
		row = new_row(store, TABLE_NODES);
		if (!row)
			return NODE_NONE;
		nodes(store)[row] = (struct row_node){
			.parent = map[parent],
			.frame = frame_of(store, frames_context(missing).frame),
			.first_epoch = store->epoch,
			.last_epoch = store->epoch,
		};
		commit(store, TABLE_NODES);
		map[missing] = row;
	}
	return map[context];
}

/* A row from the list that starts at *free_rows, or a new one. Zeroed. */
static uint32_t new_value(struct store *store)
{
	uint32_t row = store->free_value;

	if (!row)
		return new_row(store, TABLE_VALUES);
	store->free_value = values(store)[row].next;
	values(store)[row] = (struct row_value){0};
	return row;
}

static uint32_t new_kernel(struct store *store)
{
	uint32_t row = store->free_kernel;

	if (!row)
		return new_row(store, TABLE_KERNELS);
	store->free_kernel = kernels(store)[row].next;
	kernels(store)[row] = (struct row_kernel){0};
	return row;
}

static uint32_t new_histogram(struct store *store)
{
	struct row_histogram *histograms = profile_file_rows(&store->file, TABLE_HISTOGRAMS);
	uint32_t row = store->free_histogram;

	if (!row)
		return new_row(store, TABLE_HISTOGRAMS);
	store->free_histogram = histograms[row].bucket[0];
	histograms[row] = (struct row_histogram){0};
	return row;
}

/* Puts value row `row`, filled by now, at the head of the node's list. */
static void link_value(struct store *store, uint32_t node, uint32_t row)
{
	values(store)[row].next = nodes(store)[node].first_value;
	commit(store, TABLE_VALUES);
	nodes(store)[node].first_value = row;
}

/*
 * Notes that `node` was entered in the current epoch. The node holds the first and the last such
 * epoch; when the last moves on, the one it held gets a row of its own unless it is also the first.
 */
static void mark_entered(struct store *store, uint32_t node)
{
	struct row_node *row = &nodes(store)[node];

	if (row->last_epoch == store->epoch)
		return;
	if (epochs(store)[row->first_epoch].flags & EPOCH_CLEARED) {
		row->first_epoch = epochs(store)[row->last_epoch].flags & EPOCH_CLEARED
					   ? store->epoch
					   : row->last_epoch;
	} else if (row->last_epoch != row->first_epoch &&
		   !(epochs(store)[row->last_epoch].flags & EPOCH_CLEARED)) {
		uint32_t value = new_value(store);

		if (value) {
			values(store)[value].metric = METRIC_ENTERED;
			values(store)[value].epoch = row->last_epoch;
			link_value(store, node, value);
		}
	}
	row->last_epoch = store->epoch;
}

void store_enter(struct store *store, uint32_t context)
{
	uint32_t node = node_of(store, context);

	if (node != NODE_NONE)
		mark_entered(store, node);
}

static bool epoch_is_cleared(struct store *store, uint32_t epoch)
{
	if (!(epochs(store)[epoch].flags & EPOCH_CLEARED))
		return false;
	store_count(store, COUNTER_LOST_PHASE, 1);
	return true;
}

/* The row of `device` in this file; row + 1 is remembered. UINT32_MAX when there is no room. */
static uint32_t device_of(struct store *store, uint32_t device)
{
	const struct device *source = devices_get(device);
	struct row_device *row;
	uint64_t index = store->file.tables[TABLE_DEVICES].rows;
	size_t old = store->device_capacity;

	if (device < old && store->device_rows[device])
		return store->device_rows[device] - 1;
	if (!source ||
	    !array_reserve(&store->device_rows, &store->device_capacity, (size_t)device + 1,
			   sizeof(*store->device_rows)))
		return UINT32_MAX;
	if (store->device_capacity > old)
		memset(store->device_rows + old, 0,
		       (store->device_capacity - old) * sizeof(*store->device_rows));
	row = profile_file_append(&store->file, TABLE_DEVICES, 1);
	if (!row)
		return UINT32_MAX;
	*row = (struct row_device){
		.type = new_string(store, source->type, strlen(source->type)),
		.id = source->id,
		.arch = new_string(store, source->arch, strlen(source->arch)),
		.name = new_string(store, source->name, strlen(source->name)),
		.clock_khz = source->clock_khz,
		.memory_clock_khz = source->memory_clock_khz,
		.bus_width_bits = source->bus_width_bits,
		.processors = source->processors,
	};
	commit(store, TABLE_DEVICES);
	store->device_rows[device] = (uint32_t)index + 1;
	return (uint32_t)index;
}

static void count_duration(struct row_histogram *histogram, uint64_t duration_ns)
{
	uint32_t *bucket = &histogram->bucket[histogram_bucket(duration_ns)];

	*bucket += *bucket != UINT32_MAX;
}

static void add_execution(struct store *store, struct row_kernel *row, uint64_t duration_ns)
{
	struct row_histogram *histograms = profile_file_rows(&store->file, TABLE_HISTOGRAMS);

	if (row->count == 1 && !row->histogram) {
		uint32_t histogram = new_histogram(store);

		if (histogram) {
			count_duration(&histograms[histogram], row->min_ns);
			commit(store, TABLE_HISTOGRAMS);
			row->histogram = histogram;
		}
	}
	if (row->histogram)
		count_duration(&histograms[row->histogram], duration_ns);
	if (!row->count || duration_ns < row->min_ns)
		row->min_ns = duration_ns;
	if (duration_ns > row->max_ns)
		row->max_ns = duration_ns;
	row->total_ns += duration_ns;
	row->count++;
}

void store_kernel(struct store *store, uint32_t context, uint32_t epoch, uint32_t device,
		  uint64_t start_ns, uint64_t end_ns)
{
	uint32_t node;
	uint32_t device_row;
	uint32_t at;

	if (end_ns < start_ns) {
		store_count(store, COUNTER_LOST_TIME, 1);
		return;
	}
	if (epoch_is_cleared(store, epoch))
		return;
	node = node_of(store, context);
	device_row = node == NODE_NONE ? UINT32_MAX : device_of(store, device);
	if (device_row == UINT32_MAX) {
		if (node != NODE_NONE)
			store_count(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	for (at = nodes(store)[node].first_kernel; at; at = kernels(store)[at].next)
		if (kernels(store)[at].epoch == epoch && kernels(store)[at].device == device_row)
			break;
	if (!at) {
		at = new_kernel(store);
		if (!at)
			return;
		kernels(store)[at].device = device_row;
		kernels(store)[at].epoch = epoch;
		kernels(store)[at].next = nodes(store)[node].first_kernel;
		commit(store, TABLE_KERNELS);
		nodes(store)[node].first_kernel = at;
	}
	add_execution(store, &kernels(store)[at], end_ns - start_ns);
	store_count(store, COUNTER_KERNELS, 1);
}

static const char *type_name(uint32_t type)
{
	switch (type) {
	case PROTON_METRIC_INT64:
		return "int64_t";
	case PROTON_METRIC_DOUBLE:
		return "double";
	case PROTON_METRIC_STRING:
		return "string";
	case PROTON_METRIC_INT64_VECTOR:
		return "vector<int64_t>";
	case PROTON_METRIC_DOUBLE_VECTOR:
		return "vector<double>";
	default:
		return "unknown";
	}
}

/* The row of metric `name`, added with `type` if new; UINT32_MAX when there is no room. */
static uint32_t metric_of(struct store *store, uint32_t name, uint16_t type)
{
	struct metric_name parsed = metric_name_get(name);
	struct row_metric *rows = profile_file_rows(&store->file, TABLE_METRICS);
	uint64_t count = store->file.tables[TABLE_METRICS].rows;
	size_t old = store->metric_capacity;
	uint32_t text;

	if (name < old && store->metric_of_name[name])
		return store->metric_of_name[name] - 1;
	if (!array_reserve(&store->metric_of_name, &store->metric_capacity, (size_t)name + 1,
			   sizeof(*store->metric_of_name)))
		return UINT32_MAX;
	if (store->metric_capacity > old)
		memset(store->metric_of_name + old, 0,
		       (store->metric_capacity - old) * sizeof(*store->metric_of_name));
	text = string_of(store, parsed.text);
	for (uint32_t row = 0; row < count; row++) {
		if (rows[row].name == text) { /* the same name with another suffix: the first one rules */
			store->metric_of_name[name] = row + 1;
			return row;
		}
	}
	if (!profile_file_append(&store->file, TABLE_METRICS, 1))
		return UINT32_MAX;
	rows[count] = (struct row_metric){
		.name = text,
		.type = type,
		.flags = (uint16_t)parsed.flags,
	};
	commit(store, TABLE_METRICS);
	store->metric_of_name[name] = (uint32_t)count + 1;
	return (uint32_t)count;
}

static int check_type(struct store *store, uint32_t row, uint32_t name,
		      const struct proton_metric *metric, struct proton_error *err)
{
	const struct row_metric *rows = profile_file_rows(&store->file, TABLE_METRICS);
	uint32_t length;

	if (rows[row].type == (uint16_t)metric->type)
		return PROTON_OK;
	store_count(store, COUNTER_LOST_TYPE, 1);
	return err_set(err, PROTON_E_TYPE,
		       "Metric value type mismatch for valueId %u (%s): current=%s, new=%s", row,
		       frames_text(metric_name_get(name).text, &length), type_name(rows[row].type),
		       type_name((uint32_t)metric->type));
}

static bool is_vector(enum proton_metric_type type)
{
	return type == PROTON_METRIC_INT64_VECTOR || type == PROTON_METRIC_DOUBLE_VECTOR;
}

/* First word of a new vector of zeros; 0 words for an empty one still has its length. */
static bool new_vector(struct store *store, uint64_t length, uint64_t *first_out)
{
	uint64_t first = store->file.tables[TABLE_VECTORS].rows;
	uint64_t *words = profile_file_append(&store->file, TABLE_VECTORS, length + 1);

	if (!words)
		return false;
	words[0] = length;
	commit(store, TABLE_VECTORS);
	*first_out = first;
	return true;
}

static int64_t add_int64(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b); /* wraps instead of being undefined */
}

static void add_vector(uint64_t *words, const struct proton_metric *metric, bool replace)
{
	for (uint32_t i = 0; i < metric->count; i++) {
		if (metric->type == PROTON_METRIC_INT64_VECTOR) {
			int64_t old = (int64_t)words[i];

			words[i] = (uint64_t)(replace ? metric->value.int64s[i]
						      : add_int64(old, metric->value.int64s[i]));
		} else {
			double old;
			double new = metric->value.float64s[i];

			memcpy(&old, &words[i], sizeof(old));
			new = replace ? new : old + new;
			memcpy(&words[i], &new, sizeof(new));
		}
	}
}

/* Adds `metric` to `value`, or replaces it. The types are known to agree. */
static int combine(struct store *store, struct row_value *value, uint32_t row, uint32_t name,
		   const struct proton_metric *metric, struct proton_error *err)
{
	const struct row_metric *rows = profile_file_rows(&store->file, TABLE_METRICS);
	uint64_t *words = profile_file_rows(&store->file, TABLE_VECTORS);
	bool replace = rows[row].flags & METRIC_PROPERTY;
	uint32_t length;

	switch (metric->type) {
	case PROTON_METRIC_INT64:
		value->as.int64 = replace ? metric->value.int64
					  : add_int64(value->as.int64, metric->value.int64);
		return PROTON_OK;
	case PROTON_METRIC_DOUBLE:
		value->as.float64 = (replace ? 0.0 : value->as.float64) + metric->value.float64;
		return PROTON_OK;
	case PROTON_METRIC_STRING:
		value->as.string = string_of(store, frames_string(metric->value.string,
								  strlen(metric->value.string)));
		return PROTON_OK;
	case PROTON_METRIC_INT64_VECTOR:
	case PROTON_METRIC_DOUBLE_VECTOR:
		if (words[value->as.vector] != metric->count) {
			store_count(store, COUNTER_LOST_TYPE, 1);
			return err_set(err, PROTON_E_TYPE,
				       "Vector metric size mismatch for valueId %u (%s): "
				       "current=%" PRIu64 ", new=%u",
				       row, frames_text(metric_name_get(name).text, &length),
				       words[value->as.vector], metric->count);
		}
		add_vector(words + value->as.vector + 1, metric, replace);
		return PROTON_OK;
	}
	return PROTON_OK;
}

int store_metric(struct store *store, uint32_t context, uint32_t epoch, uint32_t name,
		 const struct proton_metric *metric, struct proton_error *err)
{
	uint32_t node;
	uint32_t row;
	uint32_t at;
	int status;

	if (epoch_is_cleared(store, epoch))
		return PROTON_OK;
	node = node_of(store, context);
	row = node == NODE_NONE ? UINT32_MAX : metric_of(store, name, (uint16_t)metric->type);
	if (row == UINT32_MAX) {
		if (node != NODE_NONE)
			store_count(store, COUNTER_LOST_STORAGE, 1);
		return PROTON_OK; /* a full disk is said once and counted, not raised at each call */
	}
	status = check_type(store, row, name, metric, err);
	if (status != PROTON_OK)
		return status;
	for (at = nodes(store)[node].first_value; at; at = values(store)[at].next)
		if (values(store)[at].metric == row && values(store)[at].epoch == epoch)
			break;
	if (!at) {
		uint64_t vector = 0;

		if (is_vector(metric->type) && !new_vector(store, metric->count, &vector)) {
			store_count(store, COUNTER_LOST_STORAGE, 1);
			return PROTON_OK;
		}
		at = new_value(store);
		if (!at)
			return PROTON_OK;
		values(store)[at].metric = row;
		values(store)[at].epoch = epoch;
		if (is_vector(metric->type))
			values(store)[at].as.vector = vector;
		link_value(store, node, at);
	}
	store_count(store, COUNTER_METRICS, 1);
	return combine(store, &values(store)[at], row, name, metric, err);
}

void store_info(struct store *store, const char *key, const char *value)
{
	struct row_info *row = profile_file_append(&store->file, TABLE_INFO, 1);

	if (!row)
		return;
	row->key = new_string(store, key, strlen(key));
	row->value = new_string(store, value, strlen(value));
	commit(store, TABLE_INFO);
}

/* ------------------------------------------------------------------ phases */

struct row_epoch *store_epochs(const struct store *store, uint32_t *count_out)
{
	*count_out = (uint32_t)store->file.tables[TABLE_EPOCHS].rows;
	return epochs(store);
}

void store_phase_begin(struct store *store, uint32_t phase)
{
	uint64_t count = store->file.tables[TABLE_EPOCHS].rows;
	struct row_epoch *row = profile_file_append(&store->file, TABLE_EPOCHS, 1);
	uint64_t now_ns = clock_real_ns();

	if (!row) { /* go on in the epoch there is */
		store_count(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	if (count)
		epochs(store)[count - 1].end_ns = now_ns;
	*row = (struct row_epoch){.phase = phase, .start_ns = now_ns};
	commit(store, TABLE_EPOCHS);
	store->epoch = (uint32_t)count;
}

void store_phase_finish(struct store *store)
{
	epochs(store)[store->epoch].end_ns = clock_real_ns();
	epochs(store)[store->epoch].flags |= EPOCH_COMPLETE;
}

static void drop_cleared_values(struct store *store, struct row_node *node)
{
	uint32_t *link = &node->first_value;

	while (*link) {
		uint32_t at = *link;
		struct row_value *value = &values(store)[at];

		if (epochs(store)[value->epoch].flags & EPOCH_CLEARED) {
			*link = value->next;
			value->next = store->free_value;
			store->free_value = at;
		} else {
			link = &value->next;
		}
	}
}

static void drop_cleared_kernels(struct store *store, struct row_node *node)
{
	struct row_histogram *histograms = profile_file_rows(&store->file, TABLE_HISTOGRAMS);
	uint32_t *link = &node->first_kernel;

	while (*link) {
		uint32_t at = *link;
		struct row_kernel *kernel = &kernels(store)[at];

		if (!(epochs(store)[kernel->epoch].flags & EPOCH_CLEARED)) {
			link = &kernel->next;
			continue;
		}
		*link = kernel->next;
		if (kernel->histogram) {
			histograms[kernel->histogram].bucket[0] = store->free_histogram;
			store->free_histogram = kernel->histogram;
			kernel->histogram = 0;
		}
		kernel->next = store->free_kernel;
		store->free_kernel = at;
	}
}

void store_phase_clear(struct store *store, uint32_t phase, bool up_to)
{
	uint64_t node_count = store->file.tables[TABLE_NODES].rows;
	uint32_t current_phase = epochs(store)[store->epoch].phase;
	uint32_t epoch_count;
	struct row_epoch *rows = store_epochs(store, &epoch_count);

	for (uint32_t i = 0; i < epoch_count; i++)
		if (rows[i].phase == phase || (up_to && rows[i].phase < phase))
			rows[i].flags |= EPOCH_CLEARED;
	for (uint64_t i = 0; i < node_count; i++) {
		drop_cleared_values(store, &nodes(store)[i]);
		drop_cleared_kernels(store, &nodes(store)[i]);
	}
	if (rows[store->epoch].flags & EPOCH_CLEARED)
		store_phase_begin(store, current_phase);
}

/* ------------------------------------------------------------------ life */

int store_init(struct store *store, const char *path, struct proton_error *err)
{
	int status;

	*store = (struct store){0};
	status = profile_file_create(&store->file, path, err);
	if (status != PROTON_OK)
		return status;
	status = region_reserve(&store->node_of_context, MAP_RESERVE, 1 << 20, 1, err);
	if (status == PROTON_OK)
		status = region_reserve(&store->frame_of_frame, MAP_RESERVE, 1 << 20, 1, err);
	if (status == PROTON_OK)
		status = region_reserve(&store->string_of_string, MAP_RESERVE, 1 << 20, 1, err);
	if (status == PROTON_OK &&
	    !profile_file_append(&store->file, TABLE_COUNTERS, COUNTER_COUNT))
		status = err_errno(err, store->file.errnum, "cannot create the profile");
	if (status == PROTON_OK) {
		struct row_counter *rows = profile_file_rows(&store->file, TABLE_COUNTERS);

		for (int i = 0; i < COUNTER_COUNT; i++)
			rows[i] = (struct row_counter){
				.name = new_string(store, counters[i].name,
						   strlen(counters[i].name)),
				.is_loss = counters[i].is_loss,
			};
		commit(store, TABLE_COUNTERS);
		store_phase_begin(store, 0);
		if (!store->file.tables[TABLE_EPOCHS].rows)
			status = err_errno(err, store->file.errnum, "cannot create the profile");
	}
	if (status == PROTON_OK)
		profile_file_mark(&store->file, PROFILE_FILE_RECORDING, 0);
	else
		store_fini(store, true);
	return status;
}

void store_fini(struct store *store, bool remove_file)
{
	profile_file_close(&store->file, remove_file);
	region_release(&store->node_of_context);
	region_release(&store->frame_of_frame);
	region_release(&store->string_of_string);
	free(store->metric_of_name);
	free(store->device_rows);
	*store = (struct store){.file = {.fd = -1}};
}

int store_profile(const struct store *store, uint32_t phase, struct profile **out,
		  struct proton_error *err)
{
	struct profile_view view;

	profile_file_view(&store->file, &view);
	return profile_load_view(&view, phase, out, err);
}
