/* Writing a profile in memory as a packed profile file: its arrays as rows of the file. */
#include "model/save_profile.h"

#include "base/array.h"
#include "format/profile_view.h"
#include "model/ranks.h"

/* Rows that are made for the file. */
struct rows {
	struct row_node *nodes;
	struct row_value *values;
	struct row_kernel *kernels;
	struct row_config *configs;
	struct row_wait *waits;
	struct row_occurrence *occurrences;
	struct row_epoch epoch;
};

static void make_nodes(const struct profile *profile, struct rows *rows)
{
	for (size_t i = 0; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];

		rows->nodes[i] = (struct row_node){
			.parent = node->parent,
			.frame = node->frame,
			.first_value = node->first_value,
			.first_kernel = node->first_kernel,
		};
	}
	for (size_t i = 1; i < profile->value_count; i++) {
		const struct profile_value *value = &profile->values[i];
		uint16_t type = profile->metrics[value->metric].type;

		rows->values[i] = (struct row_value){.next = value->next, .metric = value->metric};
		if (profile_is_number(type))
			rows->values[i].as.int64 = value->as.int64;
		else /* a string or a vector */
			rows->values[i].as.string = value->as.string;
	}
}

static void make_kernels(const struct profile *profile, struct rows *rows)
{
	for (size_t i = 1; i < profile->kernel_count; i++) {
		const struct profile_kernel *kernel = &profile->kernels[i];
		uint32_t c = kernel->first_config;

		rows->kernels[i] = (struct row_kernel){
			.next = kernel->next,
			.device = kernel->device,
			.histogram = kernel->histogram,
			.count = kernel->count,
			.total_ns = kernel->total_ns,
			.min_ns = kernel->min_ns,
			.max_ns = kernel->max_ns,
		};
		for (; c; c = profile->configs[c].next) {
			rows->configs[c] = profile->configs[c];
			rows->configs[c].kernel = (uint32_t)i;
			if (!rows->configs[c].next)
				rows->configs[c].next = kernel->first_config;
		}
	}
}

static void put_table(struct profile_view *view, enum table_id id, const void *rows, size_t count)
{
	view->table[id] = rows;
	view->rows[id] = count;
}

static int write_rows(const struct profile *profile, const struct rows *rows, struct out *out,
		      struct proton_error *err)
{
	struct profile_view view = {
		.pid = profile->pid, .start_ns = profile->start_ns, .end_ns = profile->end_ns};
	const struct profile_ranks *ranks = profile->ranks;

	put_table(&view, TABLE_STRINGS, profile->strings.pool.base, profile->strings.used / 8);
	put_table(&view, TABLE_FRAMES, profile->frames, profile->frame_count);
	put_table(&view, TABLE_NODES, rows->nodes, profile->node_count);
	put_table(&view, TABLE_METRICS, profile->metrics, profile->metric_count);
	put_table(&view, TABLE_VALUES, rows->values, profile->value_count);
	put_table(&view, TABLE_KERNELS, rows->kernels, profile->kernel_count);
	put_table(&view, TABLE_HISTOGRAMS, profile->histograms, profile->histogram_count);
	put_table(&view, TABLE_VECTORS, profile->words, profile->word_count);
	put_table(&view, TABLE_DEVICES, profile->devices, profile->device_count);
	put_table(&view, TABLE_INFO, profile->info, profile->info_count);
	put_table(&view, TABLE_COUNTERS, profile->counters, profile->counter_count);
	put_table(&view, TABLE_EPOCHS, &rows->epoch, 1);
	put_table(&view, TABLE_CONFIGS, rows->configs, profile->config_count);
	if (ranks) {
		put_table(&view, TABLE_RANKS, ranks->rows, ranks->count);
		put_table(&view, TABLE_SPREADS, ranks->spreads + 1, ranks->spread_count - 1);
		if (ranks->values.count)
			put_table(&view, TABLE_VALUE_SPREADS, ranks->values.rows + 1,
				  ranks->values.count - 1);
		put_table(&view, TABLE_COLUMNS, ranks->columns, ranks->column_count);
		put_table(&view, TABLE_CELLS, ranks->cells, ranks->column_count * ranks->count);
	}
	if (profile->waits) {
		put_table(&view, TABLE_WAITS, rows->waits, profile->waits->count);
		put_table(&view, TABLE_OCCURRENCES, rows->occurrences, profile->waits->occurrences);
	}
	return profile_view_write(&view, out, err);
}

int profile_save(const struct profile *profile, struct out *out, struct proton_error *err)
{
	struct rows rows = {
		.nodes = calloc(profile->node_count + 1, sizeof(*rows.nodes)),
		.values = calloc(profile->value_count + 1, sizeof(*rows.values)),
		.kernels = calloc(profile->kernel_count + 1, sizeof(*rows.kernels)),
		.configs = calloc(profile->config_count + 1, sizeof(*rows.configs)),
		.waits = profile->waits ? waits_rows(profile->waits) : NULL,
		.occurrences = profile->waits ? waits_occurrences(profile->waits) : NULL,
		.epoch = {.flags = EPOCH_COMPLETE,
			  .start_ns = profile->start_ns,
			  .end_ns = profile->end_ns},
	};
	int status = PROTON_OK;

	if (!rows.nodes || !rows.values || !rows.kernels || !rows.configs ||
	    (profile->waits && (!rows.waits || !rows.occurrences))) {
		status = err_nomem(err);
	} else {
		make_nodes(profile, &rows);
		make_kernels(profile, &rows);
		status = write_rows(profile, &rows, out, err);
	}
	FREE_ALL(rows.nodes, rows.values, rows.kernels, rows.configs, rows.waits, rows.occurrences);
	return status;
}
