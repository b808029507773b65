/* Tables of an open profile file: the sizes of rows, strings. See docs/format.md. */
#include "format/profile_view.h"

#include <stdlib.h>
#include <string.h>

const uint32_t profile_row_bytes[TABLE_COUNT] = {
	[TABLE_STRINGS] = 8,
	[TABLE_FRAMES] = sizeof(struct row_frame),
	[TABLE_NODES] = sizeof(struct row_node),
	[TABLE_METRICS] = sizeof(struct row_metric),
	[TABLE_VALUES] = sizeof(struct row_value),
	[TABLE_KERNELS] = sizeof(struct row_kernel),
	[TABLE_HISTOGRAMS] = sizeof(struct row_histogram),
	[TABLE_VECTORS] = 8,
	[TABLE_DEVICES] = sizeof(struct row_device),
	[TABLE_INFO] = sizeof(struct row_info),
	[TABLE_COUNTERS] = sizeof(struct row_counter),
	[TABLE_EPOCHS] = sizeof(struct row_epoch),
	[TABLE_LANES] = sizeof(struct row_lane),
	[TABLE_EVENTS] = sizeof(struct row_event),
	[TABLE_SAMPLES] = sizeof(struct row_sample),
	[TABLE_LAUNCHES] = sizeof(struct row_launch),
	[TABLE_CONFIGS] = sizeof(struct row_config),
	[TABLE_CODE_OBJECTS] = sizeof(struct row_code_object),
	[TABLE_FUNCTIONS] = sizeof(struct row_function),
	[TABLE_PCS] = sizeof(struct row_pc),
	[TABLE_RUNS] = sizeof(struct row_run),
	[TABLE_BLOBS] = 8,
	[TABLE_SOURCES] = sizeof(struct row_source),
	[TABLE_RANKS] = sizeof(struct row_rank),
	[TABLE_SPREADS] = sizeof(struct row_spread),
	[TABLE_VALUE_SPREADS] = sizeof(struct row_value_spread),
	[TABLE_COLUMNS] = sizeof(struct row_column),
	[TABLE_CELLS] = sizeof(uint64_t),
	[TABLE_DURATIONS] = sizeof(struct row_durations),
	[TABLE_WAITS] = sizeof(struct row_wait),
	[TABLE_OCCURRENCES] = sizeof(struct row_occurrence),
};

void profile_view_fini(struct profile_view *view)
{
	for (int id = 0; id < TABLE_COUNT; id++)
		free(view->owned[id]);
	*view = (struct profile_view){0};
}

const char *profile_view_string(const struct profile_view *view, uint32_t id, uint32_t *length_out)
{
	uint64_t table_bytes = view->rows[TABLE_STRINGS] * 8;
	uint64_t at = (uint64_t)id * 8;
	const char *strings = view->table[TABLE_STRINGS];
	uint32_t length;

	*length_out = 0;
	if (at + 8 > table_bytes)
		return "";
	memcpy(&length, strings + at, sizeof(length));
	if (at + 4 + (uint64_t)length + 1 > table_bytes || strings[at + 4 + length] != '\0')
		return "";
	*length_out = length;
	return strings + at + 4;
}
