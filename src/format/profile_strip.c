/* Stripping of a profile file: copies of its tables, without contents and identities. */
#include "format/profile_view.h"

#include <libproton/proton.h> /* enum proton_metric_type */

#include "base/array.h"
#include "base/strings.h"

/* Information that stays. All else is dropped, also what later versions add. */
static const char *const kept_info[] = {
	"version",
	"backend",
	"context",
	"mode",
	"data",
	"memory",
	"rank",
	"world_size",
	"local_rank",
	"attempt",
	"cupti",
	"cupti_interface",
	"kernel_times",
	"cuda_driver",
	"nvidia_driver",
	"gpus",
	"roctracer",
	"rocprofiler",
	"graph_nodes_by_source",
	"mixed",
};

struct strip {
	const struct profile_view *view;
	struct profile_view result;
	void *copies[TABLE_COUNT];
	uint32_t *strings; /* by id: the new one; 0: not used yet */
	struct out pool;
	bool is_out_of_memory;
};

/* ------------------------------------------------------------------ strings */

static uint32_t add_string(struct strip *strip, const char *text, size_t length)
{
	size_t bytes = string_entry_bytes(length);
	uint32_t id = (uint32_t)(strip->pool.length / 8);
	uint32_t stored = (uint32_t)length;
	static const char zeros[8];

	if (!length)
		return 0;
	out_bytes(&strip->pool, &stored, sizeof(stored));
	out_bytes(&strip->pool, text, length);
	out_bytes(&strip->pool, zeros, bytes - 4 - length);
	return id;
}

static uint32_t keep_string(struct strip *strip, uint32_t id)
{
	uint32_t length;
	const char *text = profile_view_string(strip->view, id, &length);

	if (id >= strip->view->rows[TABLE_STRINGS])
		return 0;
	if (!strip->strings[id])
		strip->strings[id] = add_string(strip, text, length);
	return strip->strings[id];
}

/* A path without its directories. */
static uint32_t keep_base(struct strip *strip, uint32_t id)
{
	uint32_t length;
	const char *text = profile_view_string(strip->view, id, &length);
	const char *slash = memrchr(text, '/', length);

	return slash ? add_string(strip, slash + 1, (size_t)(text + length - slash - 1))
		     : keep_string(strip, id);
}

/* ------------------------------------------------------------------ tables */

/* A copy of a table that may be changed. */
static void *copy_table(struct strip *strip, enum table_id id, uint64_t *count_out)
{
	size_t bytes = strip->view->rows[id] * profile_row_bytes[id];

	*count_out = 0;
	if (!bytes)
		return NULL;
	strip->copies[id] = malloc(bytes);
	if (!strip->copies[id]) {
		strip->is_out_of_memory = true;
		return NULL;
	}
	memcpy(strip->copies[id], strip->view->table[id], bytes);
	strip->result.table[id] = strip->copies[id];
	*count_out = strip->view->rows[id];
	return strip->copies[id];
}

/* Tables with one or more strings in each row, and nothing else that is dropped. */
static void strip_names(struct strip *strip)
{
	static const struct {
		enum table_id table;
		size_t offset;
	} fields[] = {
		{TABLE_FRAMES, offsetof(struct row_frame, name)},
		{TABLE_METRICS, offsetof(struct row_metric, name)},
		{TABLE_DEVICES, offsetof(struct row_device, type)},
		{TABLE_DEVICES, offsetof(struct row_device, arch)},
		{TABLE_DEVICES, offsetof(struct row_device, name)},
		{TABLE_COUNTERS, offsetof(struct row_counter, name)},
		{TABLE_LANES, offsetof(struct row_lane, name)},
		{TABLE_FUNCTIONS, offsetof(struct row_function, name)},
		{TABLE_PCS, offsetof(struct row_pc, reason)},
		{TABLE_DURATIONS, offsetof(struct row_durations, group)},
		{TABLE_WAITS, offsetof(struct row_wait, group)},
		{TABLE_RANKS, offsetof(struct row_rank, version)},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
		enum table_id id = fields[i].table;
		uint64_t count = strip->view->rows[id];
		char *rows = strip->copies[id] ? strip->copies[id] : copy_table(strip, id, &count);

		for (uint64_t row = 0; rows && row < count; row++) {
			char *at = rows + row * profile_row_bytes[id] + fields[i].offset;
			uint32_t string;

			memcpy(&string, at, sizeof(string));
			string = keep_string(strip, string);
			memcpy(at, &string, sizeof(string));
		}
	}
}

static void strip_files(struct strip *strip)
{
	uint64_t count = strip->view->rows[TABLE_FRAMES];
	struct row_frame *frames = strip->copies[TABLE_FRAMES];

	for (uint64_t i = 0; frames && i < count; i++)
		frames[i].file = keep_base(strip, frames[i].file);
	struct row_source *sources = copy_table(strip, TABLE_SOURCES, &count);
	for (uint64_t i = 0; i < count; i++)
		sources[i] = (struct row_source){.path = keep_base(strip, sources[i].path)};
	struct row_code_object *objects = copy_table(strip, TABLE_CODE_OBJECTS, &count);
	for (uint64_t i = 0; i < count; i++)
		objects[i] = (struct row_code_object){.crc = objects[i].crc};
	strip->result.rows[TABLE_BLOBS] = 0;
}

/* Thread ids (the main thread has the id of the process), and origins of ranks. */
static void strip_origins(struct strip *strip)
{
	struct row_lane *lanes = strip->copies[TABLE_LANES];
	struct row_rank *ranks = strip->copies[TABLE_RANKS];

	for (uint64_t i = 0; lanes && i < strip->view->rows[TABLE_LANES]; i++)
		if (lanes[i].kind == LANE_THREAD)
			lanes[i].id = lanes[i].number + 1ull;
	for (uint64_t i = 0; ranks && i < strip->view->rows[TABLE_RANKS]; i++) {
		ranks[i].host = ranks[i].job = ranks[i].gpu = ranks[i].launch = 0;
		ranks[i].process = ranks[i].reason = ranks[i].pid = 0;
		ranks[i].mixed = ranks[i].mixed ? add_string(strip, "another launch", 14) : 0;
	}
}

static bool is_text(const struct strip *strip, uint32_t metric)
{
	const struct row_metric *metrics = strip->view->table[TABLE_METRICS];

	return metric < strip->view->rows[TABLE_METRICS] &&
	       metrics[metric].type == PROTON_METRIC_STRING;
}

static void strip_values(struct strip *strip)
{
	uint64_t count;
	struct row_value *values = copy_table(strip, TABLE_VALUES, &count);

	for (uint64_t i = 0; i < count; i++)
		if (is_text(strip, values[i].metric))
			values[i].as.string = keep_string(strip, (uint32_t)values[i].as.string);
	struct row_sample *samples = copy_table(strip, TABLE_SAMPLES, &count);
	for (uint64_t i = 0; i < count; i++)
		if (is_text(strip, samples[i].metric))
			samples[i].as.string = keep_string(strip, (uint32_t)samples[i].as.string);
}

static void strip_info(struct strip *strip)
{
	uint64_t count;
	struct row_info *rows = copy_table(strip, TABLE_INFO, &count);
	uint64_t left = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t length;
		const char *key = profile_view_string(strip->view, rows[i].key, &length);
		bool is_kept = false;

		for (size_t k = 0; k < ARRAY_LENGTH(kept_info); k++)
			is_kept |= strcmp(key, kept_info[k]) == 0;
		if (is_kept)
			rows[left++] = (struct row_info){keep_string(strip, rows[i].key),
							 keep_string(strip, rows[i].value)};
	}
	strip->result.rows[TABLE_INFO] = left;
}

int profile_strip(const struct profile_view *view, struct out *out, struct proton_error *err)
{
	struct strip strip = {.view = view, .result = *view, .pool = OUT_IN_MEMORY};
	static const char empty[8];

	out_bytes(&strip.pool, empty, sizeof(empty));
	strip.strings = calloc(view->rows[TABLE_STRINGS] + 1, sizeof(*strip.strings));
	if (strip.strings) {
		strip.result.pid = 0;
		strip_names(&strip);
		strip_files(&strip);
		strip_values(&strip);
		strip_info(&strip);
		strip_origins(&strip);
	}
	strip.result.table[TABLE_STRINGS] = strip.pool.bytes;
	strip.result.rows[TABLE_STRINGS] = strip.pool.length / 8;
	int status = !strip.strings || strip.is_out_of_memory || strip.pool.errnum
			     ? err_nomem(err)
			     : profile_view_write(&strip.result, out, err);
	for (int id = 0; id < TABLE_COUNT; id++)
		free(strip.copies[id]);
	free(strip.strings);
	out_fini(&strip.pool);
	return status;
}
