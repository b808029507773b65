/*
 * Loader of profile files and live sessions: from table rows to a profile.
 *
 * Rows are untrusted. Every index is checked against its table, and a list may visit a row only
 * once (a cycle or a shared tail ends there). Data copied per reference (strings, vectors,
 * histograms) has a budget of its table's size, so a small file cannot expand to a large profile.
 *
 * A phase consists of the epochs of that number that were not cleared, the nodes entered in them,
 * and the ancestors of these.
 */

#include "base/array.h"
#include "model/estimates.h"
#include "model/load.h"

/* Where in the current node a metric or a device was stored. */
struct last_use {
	uint32_t node_plus_1;
	uint32_t epoch;
	uint32_t index; /* index of values or kernels */
};

struct view_loader {
	const struct profile_view *view;
	struct profile *profile;
	bool is_all_selected; /* no second pass over the nodes is needed then */
	/* Its rows, and maps: id of the view to id + 1 of the profile, 0 = none (yet). */
	struct profile_trace *trace;
	bool *is_kept; /* by node of the view; NULL: all */
	uint32_t *frames;
	uint32_t *kernels;
	uint32_t *kernel_nodes;       /* by kernel row: its node + 1 */
	struct last_use *metric_uses; /* by metric of the profile */
	struct last_use *device_uses; /* by device of the profile */
	uint64_t *seen_values;        /* a bit per row */
	uint64_t *seen_kernels;
	uint32_t unknown_frame;
	uint64_t string_budget; /* bytes, words and rows that may still be copied */
	uint64_t word_budget;
	uint64_t histogram_budget;
};

static uint64_t rows_of(const struct view_loader *loader, enum table_id table)
{
	return loader->view->table[table] ? loader->view->rows[table] : 0;
}

/* Records a visit of `row`; false if it was visited before. */
static bool visit_row(uint64_t *seen, uint64_t row)
{
	uint64_t bit = 1ull << (row % 64);

	if (seen[row / 64] & bit)
		return false;
	seen[row / 64] |= bit;
	return true;
}

/* False: the table has no such row, so the file is damaged. */
static bool is_row(struct view_loader *loader, enum table_id table, uint64_t row)
{
	bool is_there = row < rows_of(loader, table);

	loader->profile->is_damaged |= !is_there;
	return is_there;
}

static bool is_epoch_selected(struct view_loader *loader, uint32_t epoch)
{
	return loader->is_all_selected ||
	       (is_row(loader, TABLE_EPOCHS, epoch) && loader->trace->is_selected[epoch]);
}

/* ------------------------------------------------------------------ strings, frames, metrics */

static uint32_t map_string(struct view_loader *loader, uint64_t id)
{
	uint32_t length;

	if (id == 0 || !is_row(loader, TABLE_STRINGS, id))
		return 0;
	if (loader->trace->strings[id])
		return loader->trace->strings[id] - 1;
	const char *text = profile_view_string(loader->view, (uint32_t)id, &length);
	if (string_entry_bytes(length) > loader->string_budget) {
		loader->profile->is_damaged = true;
		return 0;
	}
	loader->string_budget -= string_entry_bytes(length);
	uint32_t string = profile_string(loader->profile, text, length);
	loader->trace->strings[id] = string + 1;
	return string;
}

static uint32_t map_frame(struct view_loader *loader, uint32_t id)
{
	if (id == 0 || id >= rows_of(loader, TABLE_FRAMES)) {
		loader->profile->is_damaged = true;
		if (!loader->unknown_frame)
			loader->unknown_frame = profile_name_frame(loader->profile, "<unknown>");
		return loader->unknown_frame;
	}
	if (loader->frames[id])
		return loader->frames[id] - 1;
	const struct row_frame *row = (const struct row_frame *)loader->view->table[TABLE_FRAMES] +
				      id;
	struct row_frame frame =
		(struct row_frame){.kind = row->kind, .name = map_string(loader, row->name)};
	if (row->kind == FRAME_SOURCE) {
		frame.file = map_string(loader, row->file);
		frame.line = row->line;
	} else if (row->kind != FRAME_KERNEL) {
		frame.kind = FRAME_NAME;
	}
	loader->frames[id] = profile_frame_append(loader->profile, frame) + 1;
	return loader->frames[id] - 1;
}

/* If a name has both integers and doubles, the integers become doubles: one metric with a sum. */
static void map_metrics(struct view_loader *loader)
{
	const struct row_metric *rows = loader->view->table[TABLE_METRICS];
	uint64_t count = rows_of(loader, TABLE_METRICS);
	struct profile *profile = loader->profile;

	for (uint64_t i = 0; i < count; i++)
		map_string(loader, rows[i].name);
	bool *has_doubles =
		calloc(profile->strings.used / 8 + 1, sizeof(*has_doubles)); /* by string */
	if (!has_doubles) {
		profile->out_of_memory = true;
		return;
	}
	for (uint64_t i = 0; i < count; i++)
		if (rows[i].type == PROTON_METRIC_DOUBLE)
			has_doubles[map_string(loader, rows[i].name)] = true;
	for (uint64_t i = 0; i < count; i++) {
		uint32_t name = map_string(loader, rows[i].name);
		uint16_t type = rows[i].type;

		if (!profile_is_number(type) && type != PROTON_METRIC_STRING &&
		    type != PROTON_METRIC_INT64_VECTOR && type != PROTON_METRIC_DOUBLE_VECTOR) {
			profile->is_damaged = true;
			continue;
		}
		loader->trace->is_widened[i] = type == PROTON_METRIC_INT64 && has_doubles[name];
		if (loader->trace->is_widened[i])
			type = PROTON_METRIC_DOUBLE;
		loader->trace->metrics[i] =
			profile_metric(profile, name, type,
				       rows[i].flags & (METRIC_EXCLUSIVE | METRIC_PROPERTY)) +
			1;
	}
	free(has_doubles);
}

static void map_devices(struct view_loader *loader)
{
	const struct row_device *rows = loader->view->table[TABLE_DEVICES];
	struct profile *profile = loader->profile;

	for (uint64_t i = 0; i < rows_of(loader, TABLE_DEVICES); i++) {
		struct row_device row = rows[i];

		row.type = map_string(loader, row.type);
		row.arch = map_string(loader, row.arch);
		row.name = map_string(loader, row.name);
		uint32_t id = profile_device(profile, row.type, row.id);
		if (profile->out_of_memory || profile->device_count >= PROFILE_DEVICES_MAX) {
			profile->is_damaged = true;
			return;
		}
		profile->devices[id] = row;
		loader->trace->devices[i] = id + 1;
	}
}

static void copy_info(struct view_loader *loader)
{
	const struct row_info *info = loader->view->table[TABLE_INFO];
	const struct row_counter *counters = loader->view->table[TABLE_COUNTERS];
	struct profile *profile = loader->profile;

	for (uint64_t i = 0; i < rows_of(loader, TABLE_INFO); i++) {
		uint32_t key = map_string(loader, info[i].key);
		uint32_t value = map_string(loader, info[i].value);

		if (string_length(&profile->strings, key))
			profile_info(profile, profile_text(profile, key),
				     profile_text(profile, value));
	}
	for (uint64_t i = 0; i < rows_of(loader, TABLE_COUNTERS); i++) {
		uint32_t name = map_string(loader, counters[i].name);

		if (string_length(&profile->strings, name))
			profile_counter(profile, profile_text(profile, name),
					counters[i].is_loss != 0, counters[i].value);
	}
}

/* ------------------------------------------------------------------ values */

/*
 * The vector at word `at` of the view; NULL if it is not inside its table. Values share one empty
 * vector, which takes a word for each of their rows.
 */
static const uint64_t *view_vector(struct view_loader *loader, uint64_t at)
{
	const uint64_t *words = loader->view->table[TABLE_VECTORS];
	uint64_t rows = rows_of(loader, TABLE_VECTORS);

	if (at >= rows || words[at] > rows - at - 1 ||
	    (words[at] && words[at] + 1 > loader->word_budget)) {
		loader->profile->is_damaged = true;
		return NULL;
	}
	loader->word_budget -= words[at] ? words[at] + 1 : 0;
	return words + at;
}

static void copy_value(struct view_loader *loader, uint32_t node, const struct row_value *row)
{
	struct profile *profile = loader->profile;
	struct profile_value from = {.as.int64 = row->as.int64};
	const uint64_t *vector = NULL;

	if (row->metric >= rows_of(loader, TABLE_METRICS) || !loader->trace->metrics[row->metric]) {
		profile->is_damaged = true;
		return;
	}
	uint32_t metric = loader->trace->metrics[row->metric] - 1;
	struct last_use *use = &loader->metric_uses[metric];
	bool is_new = use->node_plus_1 != node + 1;
	bool is_later = is_new || row->epoch >= use->epoch;
	if (is_new) {
		struct profile_value *value = profile_value(profile, node, metric);

		if (profile->out_of_memory)
			return;
		use->node_plus_1 = node + 1;
		use->index = (uint32_t)(value - profile->values);
	}
	if (is_later)
		use->epoch = row->epoch;
	uint16_t type = profile->metrics[metric].type;
	if (loader->trace->is_widened[row->metric])
		from.as.float64 = (double)row->as.int64;
	else if (type == PROTON_METRIC_STRING)
		from.as.string = map_string(loader, row->as.string);
	else if (!profile_is_number(type) && !(vector = view_vector(loader, row->as.vector)))
		return;
	profile_value_add(profile, use->index, &from, vector, is_new, is_later);
}

static void copy_values(struct view_loader *loader, uint32_t node, uint32_t first)
{
	const struct row_value *rows = loader->view->table[TABLE_VALUES];

	for (uint32_t v = first; v; v = rows[v].next) {
		if (v >= rows_of(loader, TABLE_VALUES) || !visit_row(loader->seen_values, v)) {
			loader->profile->is_damaged = true;
			return;
		}
		if (rows[v].metric != METRIC_ENTERED && is_epoch_selected(loader, rows[v].epoch))
			copy_value(loader, node, &rows[v]);
	}
}

/* ------------------------------------------------------------------ kernels */

static const uint32_t *buckets_of(struct view_loader *loader, const struct row_kernel *row)
{
	const struct row_histogram *rows = loader->view->table[TABLE_HISTOGRAMS];

	if (!row->histogram)
		return NULL;
	if (row->histogram >= rows_of(loader, TABLE_HISTOGRAMS) || !loader->histogram_budget) {
		loader->profile->is_damaged = true;
		return NULL;
	}
	loader->histogram_budget--;
	return rows[row->histogram].bucket;
}

static void copy_kernel(struct view_loader *loader, uint32_t node, const struct row_kernel *row)
{
	const struct profile_kernel from = {.count = row->count,
					    .total_ns = row->total_ns,
					    .min_ns = row->min_ns,
					    .max_ns = row->max_ns};
	struct profile *profile = loader->profile;

	if (row->count == 0) /* created, but never executed */
		return;
	if (row->device >= rows_of(loader, TABLE_DEVICES) || !loader->trace->devices[row->device]) {
		profile->is_damaged = true;
		return;
	}
	uint32_t device = loader->trace->devices[row->device] - 1;
	struct last_use *use = &loader->device_uses[device];
	if (use->node_plus_1 != node + 1) {
		struct profile_kernel *kernel = profile_kernel(profile, node, device);

		if (profile->out_of_memory)
			return;
		use->node_plus_1 = node + 1;
		use->index = (uint32_t)(kernel - profile->kernels);
	}
	profile_kernel_add(profile, use->index, &from, buckets_of(loader, row));
	ptrdiff_t row_index = row - (const struct row_kernel *)loader->view->table[TABLE_KERNELS];
	loader->kernels[row_index] = use->index + 1;
	loader->kernel_nodes[row_index] = node + 1;
}

static void copy_kernels(struct view_loader *loader, uint32_t node, uint32_t first)
{
	const struct row_kernel *rows = loader->view->table[TABLE_KERNELS];

	for (uint32_t k = first; k; k = rows[k].next) {
		if (k >= rows_of(loader, TABLE_KERNELS) || !visit_row(loader->seen_kernels, k)) {
			loader->profile->is_damaged = true;
			return;
		}
		if (is_epoch_selected(loader, rows[k].epoch))
			copy_kernel(loader, node, &rows[k]);
	}
}

/* A configuration has the index of its kernel: no list is followed, and each row counts once. */
static void copy_configs(struct view_loader *loader)
{
	const struct row_config *rows = loader->view->table[TABLE_CONFIGS];
	struct profile *profile = loader->profile;

	for (uint64_t i = 1; i < rows_of(loader, TABLE_CONFIGS); i++) {
		if (!rows[i].kernel || !rows[i].count ||
		    !is_row(loader, TABLE_KERNELS, rows[i].kernel) ||
		    !loader->kernels[rows[i].kernel]) /* row of an epoch that is not selected */
			continue;
		uint32_t kernel = loader->kernels[rows[i].kernel] - 1;
		profile->kernels[kernel].first_config =
			profile_config(profile, profile->kernels[kernel].first_config, &rows[i]);
	}
}

/* ------------------------------------------------------------------ nodes */

/* True if one of the node's rows belongs to a selected epoch. */
static bool has_selected_row(struct view_loader *loader, const struct row_node *node)
{
	const struct row_value *values = loader->view->table[TABLE_VALUES];
	const struct row_kernel *kernels = loader->view->table[TABLE_KERNELS];

	for (uint32_t v = node->first_value; v; v = values[v].next) {
		if (v >= rows_of(loader, TABLE_VALUES) || !visit_row(loader->seen_values, v))
			break;
		if (is_epoch_selected(loader, values[v].epoch))
			return true;
	}
	for (uint32_t k = node->first_kernel; k; k = kernels[k].next) {
		if (k >= rows_of(loader, TABLE_KERNELS) || !visit_row(loader->seen_kernels, k))
			break;
		if (is_epoch_selected(loader, kernels[k].epoch))
			return true;
	}
	return false;
}

static size_t bitmap_bytes(uint64_t rows)
{
	return (size_t)(rows / 64 + 1) * 8;
}

/* Finds the nodes of the selected epochs and their ancestors. */
static void keep_selected(struct view_loader *loader)
{
	const struct row_event *events = loader->view->table[TABLE_EVENTS];
	const struct row_node *nodes = loader->view->table[TABLE_NODES];
	uint64_t count = rows_of(loader, TABLE_NODES);

	for (uint64_t i = 1; i < count; i++)
		loader->is_kept[i] = is_epoch_selected(loader, nodes[i].first_epoch) ||
				     is_epoch_selected(loader, nodes[i].last_epoch) ||
				     has_selected_row(loader, &nodes[i]);
	for (uint64_t i = 1; i < rows_of(loader, TABLE_EVENTS); i++)
		/* acquire: for sessions that still record, as in trace_event() */
		if (__atomic_load_n(&events[i].kind, __ATOMIC_ACQUIRE) != EVENT_NONE &&
		    events[i].node < count && is_epoch_selected(loader, events[i].epoch))
			loader->is_kept[events[i].node] = true;
	for (uint64_t i = count; i-- > 1;)
		if (loader->is_kept[i] && nodes[i].parent < i)
			loader->is_kept[nodes[i].parent] = true;
	memset(loader->seen_values, 0, bitmap_bytes(rows_of(loader, TABLE_VALUES)));
	memset(loader->seen_kernels, 0, bitmap_bytes(rows_of(loader, TABLE_KERNELS)));
}

static void copy_nodes(struct view_loader *loader)
{
	const struct row_node *nodes = loader->view->table[TABLE_NODES];
	struct profile *profile = loader->profile;
	uint64_t count = rows_of(loader, TABLE_NODES);

	for (uint64_t i = 0; i < count && !profile->out_of_memory; i++) {
		uint32_t parent = nodes[i].parent;
		uint32_t node = 0;

		if (loader->is_kept && i && !loader->is_kept[i])
			continue;
		if (i) {
			if (parent >= i || !loader->trace->nodes[parent]) {
				profile->is_damaged = true;
				continue;
			}
			node = profile_node(profile, loader->trace->nodes[parent] - 1,
					    map_frame(loader, nodes[i].frame));
		}
		loader->trace->nodes[i] = node + 1;
		copy_values(loader, node, nodes[i].first_value);
		copy_kernels(loader, node, nodes[i].first_kernel);
	}
}

/* ------------------------------------------------------------------ PC samples */

static void take_samples(struct view_loader *loader)
{
	const struct row_pc *pcs = loader->view->table[TABLE_PCS];
	const struct row_function *functions = loader->view->table[TABLE_FUNCTIONS];
	const struct row_source *sources = loader->view->table[TABLE_SOURCES];

	for (uint64_t i = 1; i < rows_of(loader, TABLE_PCS); i++)
		map_string(loader, pcs[i].reason);
	for (uint64_t i = 1; i < rows_of(loader, TABLE_FUNCTIONS); i++)
		map_string(loader, functions[i].name);
	for (uint64_t i = 1; i < rows_of(loader, TABLE_SOURCES); i++)
		map_string(loader, sources[i].path);
	if (!loader->profile->out_of_memory)
		load_samples(loader->profile, loader->view, loader->trace, loader->kernel_nodes);
}

/* ------------------------------------------------------------------ events */

/* Maps strings that only lanes and samples use. */
static void map_trace_strings(struct view_loader *loader)
{
	const struct row_lane *lanes = loader->view->table[TABLE_LANES];
	const struct row_sample *samples = loader->view->table[TABLE_SAMPLES];
	const struct row_metric *metrics = loader->view->table[TABLE_METRICS];

	for (uint64_t i = 0; i < rows_of(loader, TABLE_LANES); i++)
		map_string(loader, lanes[i].name);
	for (uint64_t i = 1; i < rows_of(loader, TABLE_SAMPLES); i++)
		if (samples[i].metric < rows_of(loader, TABLE_METRICS) &&
		    metrics[samples[i].metric].type == PROTON_METRIC_STRING)
			map_string(loader, samples[i].as.string);
}

/* ------------------------------------------------------------------ whole profiles */

/* Selects the epochs of `phase`. False if there are none. */
static bool select_epochs(struct view_loader *loader, uint32_t phase)
{
	const struct row_epoch *rows = loader->view->table[TABLE_EPOCHS];
	uint64_t count = rows_of(loader, TABLE_EPOCHS);
	uint64_t selected = 0;

	for (uint64_t i = 0; i < count; i++) {
		loader->trace->is_selected[i] = (phase == PHASE_ALL || rows[i].phase == phase) &&
						!(rows[i].flags & EPOCH_CLEARED);
		selected += loader->trace->is_selected[i];
	}
	/* The nodes are intact even if the file's table of epochs is lost. */
	loader->is_all_selected = phase == PHASE_ALL && selected == count;
	return selected || phase == PHASE_ALL;
}

/* The rows of events, with maps that are empty; NULL: out of memory. */
static struct profile_trace *new_trace(const struct profile_view *view)
{
	const uint64_t *rows = view->rows;
	struct profile_trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return NULL;
	*trace = (struct profile_trace){
		.lanes = view->table[TABLE_LANES],
		.events = view->table[TABLE_EVENTS],
		.samples = view->table[TABLE_SAMPLES],
		.launches = view->table[TABLE_LAUNCHES],
		.words = view->table[TABLE_VECTORS],
		.lane_count = rows[TABLE_LANES],
		.event_count = rows[TABLE_EVENTS],
		.sample_count = rows[TABLE_SAMPLES],
		.launch_count = rows[TABLE_LAUNCHES],
		.word_count = rows[TABLE_VECTORS],
		.nodes = calloc(rows[TABLE_NODES] + 1, sizeof(*trace->nodes)),
		.metrics = calloc(rows[TABLE_METRICS] + 1, sizeof(*trace->metrics)),
		.is_widened = calloc(rows[TABLE_METRICS] + 1, sizeof(*trace->is_widened)),
		.devices = calloc(rows[TABLE_DEVICES] + 1, sizeof(*trace->devices)),
		.strings = calloc(rows[TABLE_STRINGS] + 1, sizeof(*trace->strings)),
		.is_selected = calloc(rows[TABLE_EPOCHS] + 1, sizeof(*trace->is_selected)),
		.node_count = rows[TABLE_NODES],
		.metric_count = rows[TABLE_METRICS],
		.device_count = rows[TABLE_DEVICES],
		.string_count = rows[TABLE_STRINGS],
		.epoch_count = rows[TABLE_EPOCHS],
	};
	if (trace->nodes && trace->metrics && trace->is_widened && trace->devices &&
	    trace->strings && trace->is_selected)
		return trace;
	trace_free(trace);
	return NULL;
}

static bool alloc_maps(struct view_loader *loader)
{
	struct profile *profile = loader->profile;
	uint64_t metrics = rows_of(loader, TABLE_METRICS);
	uint64_t devices = rows_of(loader, TABLE_DEVICES);
	uint64_t nodes = rows_of(loader, TABLE_NODES);
	uint64_t values = rows_of(loader, TABLE_VALUES);
	uint64_t kernels = rows_of(loader, TABLE_KERNELS);

	loader->trace = new_trace(loader->view);
	loader->frames = calloc(rows_of(loader, TABLE_FRAMES) + 1, sizeof(*loader->frames));
	loader->kernels = calloc(kernels + 1, sizeof(*loader->kernels));
	loader->kernel_nodes = calloc(kernels + 1, sizeof(*loader->kernel_nodes));
	loader->metric_uses = calloc(metrics + 1, sizeof(*loader->metric_uses));
	loader->device_uses = calloc(devices + 1, sizeof(*loader->device_uses));
	loader->seen_values = calloc(1, bitmap_bytes(values));
	loader->seen_kernels = calloc(1, bitmap_bytes(kernels));
	loader->is_kept = calloc(nodes + 1, 1);
	loader->string_budget = rows_of(loader, TABLE_STRINGS) * 8;
	loader->word_budget = rows_of(loader, TABLE_VECTORS);
	loader->histogram_budget = rows_of(loader, TABLE_HISTOGRAMS);
	/* Entries of strings mostly have 16 bytes or more. */
	if (!hash_table_reserve(&profile->strings.index, rows_of(loader, TABLE_STRINGS) / 2))
		return false;
	return loader->trace && loader->frames && loader->kernels && loader->kernel_nodes &&
	       loader->metric_uses && loader->device_uses && loader->seen_values &&
	       loader->seen_kernels && loader->is_kept &&
	       array_reserve(&profile->nodes, &profile->node_capacity, nodes + 1,
			     sizeof(*profile->nodes)) &&
	       array_reserve(&profile->values, &profile->value_capacity, values + 1,
			     sizeof(*profile->values)) &&
	       array_reserve(&profile->kernels, &profile->kernel_capacity, kernels + 1,
			     sizeof(*profile->kernels));
}

int profile_load_view(const struct profile_view *view, uint32_t phase, struct profile **out,
		      struct proton_error *err)
{
	struct view_loader loader = {.view = view, .profile = profile_new()};
	struct profile *profile = loader.profile;
	int status = PROTON_OK;

	if (!profile)
		return err_nomem(err);
	if (!alloc_maps(&loader)) {
		profile->out_of_memory = true;
	} else if (!select_epochs(&loader, phase)) {
		status = err_set(err, PROTON_E_RANGE, "Phase %u has no data.", phase);
	} else {
		profile->is_damaged = view->is_damaged;
		profile->is_unfinished = view->state != PROFILE_FILE_FINISHED;
		profile->start_ns = view->start_ns;
		profile->end_ns = view->end_ns;
		profile->pid = view->pid;
		map_metrics(&loader);
		map_devices(&loader);
		copy_info(&loader);
		if (loader.is_all_selected) {
			free(loader.is_kept);
			loader.is_kept = NULL;
		} else {
			keep_selected(&loader);
		}
		copy_nodes(&loader);
		copy_configs(&loader);
		estimates_settle(profile);
		take_samples(&loader);
		waits_load(profile, view, loader.trace->nodes);
		ranks_load(profile, view, loader.trace->nodes, loader.trace->metrics);
		if (view->rows[TABLE_EVENTS]) {
			map_trace_strings(&loader);
			profile->trace = loader.trace;
			loader.trace = NULL;
		}
	}
	if (status == PROTON_OK && profile->out_of_memory)
		status = err_nomem(err);
	trace_free(loader.trace);
	FREE_ALL(loader.frames, loader.kernels, loader.kernel_nodes, loader.metric_uses,
		 loader.device_uses, loader.seen_values, loader.seen_kernels, loader.is_kept);
	if (status == PROTON_OK)
		*out = profile;
	else
		profile_free(profile);
	return status;
}
