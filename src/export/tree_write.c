/*
 * Traversal of a profile for hatchet's formats.
 *
 * It follows the links of the tree without recursion, because contexts of Python programs are
 * thousands of frames deep, and writes something before and after the children of a node.
 */
#include "export/tree_write.h"

#include <stdio.h>

#include "base/array.h"

/* Texts of every node: encoded once. */
enum fixed_text {
	FIXED_CHILDREN,
	FIXED_FRAME,
	FIXED_NAME,
	FIXED_TYPE,
	FIXED_FUNCTION,
	FIXED_METRICS,
	FIXED_TEXTS
};

static const char *const fixed_texts[FIXED_TEXTS] = {
	[FIXED_CHILDREN] = "children", [FIXED_FRAME] = "frame",       [FIXED_NAME] = "name",
	[FIXED_TYPE] = "type",         [FIXED_FUNCTION] = "function", [FIXED_METRICS] = "metrics",
};

struct tree_writer {
	const struct tree_format *format;
	void *context;
	struct tree_plan plan;
	struct plan_texts frames;
	struct plan_texts keys;
	struct out fixed;
	size_t fixed_ends[FIXED_TEXTS + 1];
	bool is_out_of_memory;
};

/* ------------------------------------------------------------------ values */

static void fixed_key(struct tree_writer *writer, enum fixed_text text)
{
	size_t begin = writer->fixed_ends[text];

	writer->format->encoded_key(writer->context, writer->fixed.bytes + begin,
				    writer->fixed_ends[text + 1] - begin);
}

static void fixed_string(struct tree_writer *writer, enum fixed_text text)
{
	size_t begin = writer->fixed_ends[text];

	writer->format->encoded(writer->context, writer->fixed.bytes + begin,
				writer->fixed_ends[text + 1] - begin);
}

static void write_number(struct tree_writer *writer, const char *key, uint64_t value)
{
	writer->format->key(writer->context, key);
	writer->format->uint64(writer->context, value);
}

static void write_true(struct tree_writer *writer, const char *key)
{
	writer->format->key(writer->context, key);
	writer->format->boolean(writer->context, true);
}

static void write_text(struct tree_writer *writer, uint32_t string)
{
	const struct profile *profile = writer->plan.profile;

	writer->format->string(writer->context, profile_text(profile, string),
			       string_length(&profile->strings, string));
}

static void write_vector(struct tree_writer *writer, const uint64_t *words, bool is_double)
{
	const struct tree_format *format = writer->format;

	format->begin_array(writer->context, words[0]);
	for (uint64_t i = 1; i <= words[0]; i++) {
		double value;

		memcpy(&value, &words[i], sizeof(value));
		if (is_double)
			format->float64(writer->context, value);
		else
			format->int64(writer->context, (int64_t)words[i]);
	}
	format->end_array(writer->context);
}

static void write_entry(struct tree_writer *writer, const struct plan_entry *entry)
{
	const struct tree_format *format = writer->format;
	size_t length;
	const char *key = plan_text(&writer->keys, entry->key, &length);

	format->encoded_key(writer->context, key, length);
	switch (entry->type) {
	case PLAN_INT64:
		format->int64(writer->context, entry->as.int64);
		break;
	case PLAN_UINT64:
		format->uint64(writer->context, entry->as.uint64);
		break;
	case PLAN_DOUBLE:
		format->float64(writer->context, entry->as.float64);
		break;
	case PLAN_STRING:
		format->string(writer->context, entry->as.text.bytes, entry->as.text.length);
		break;
	case PLAN_INT64_VECTOR:
	case PLAN_DOUBLE_VECTOR:
		write_vector(writer, entry->as.words, entry->type == PLAN_DOUBLE_VECTOR);
		break;
	}
}

static void write_entries(struct tree_writer *writer)
{
	writer->format->begin_map(writer->context, writer->plan.entry_count);
	for (size_t i = 0; i < writer->plan.entry_count; i++)
		write_entry(writer, &writer->plan.entries[i]);
	writer->format->end_map(writer->context);
}

/* ------------------------------------------------------------------ extras */

static void begin_extras(struct tree_writer *writer, uint64_t members)
{
	writer->format->key(writer->context, "proton");
	writer->format->begin_map(writer->context, members);
	writer->format->extras(writer->context, true);
}

static void end_extras(struct tree_writer *writer)
{
	writer->format->end_map(writer->context);
	writer->format->extras(writer->context, false);
}

static void write_histogram(struct tree_writer *writer, const struct row_histogram *histogram)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		used += histogram->bucket[i] != 0;
	writer->format->key(writer->context, "histogram (ns)");
	writer->format->begin_map(writer->context, used);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		char text[24];

		if (!histogram->bucket[i])
			continue;
		snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)histogram_bucket_start_ns(i));
		write_number(writer, text, histogram->bucket[i]);
	}
	writer->format->end_map(writer->context);
}

static void write_dimensions(struct tree_writer *writer, const char *key,
			     const uint32_t dimensions[3])
{
	writer->format->key(writer->context, key);
	writer->format->begin_array(writer->context, 3);
	for (int i = 0; i < 3; i++)
		writer->format->uint64(writer->context, dimensions[i]);
	writer->format->end_array(writer->context);
}

static void write_config(struct tree_writer *writer, const struct profile_config *launch)
{
	const struct launch_config *config = &launch->config;
	bool is_other = launch->flags & CONFIG_OTHER;

	writer->format->begin_map(writer->context, is_other ? 2 : 7);
	if (!is_other)
		write_dimensions(writer, "block", config->block);
	write_number(writer, "count", launch->count);
	if (!is_other) {
		write_number(writer, "dynamic_shared (bytes)", config->dynamic_shared_bytes);
		write_dimensions(writer, "grid", config->grid);
		write_number(writer, "registers", config->registers_per_thread);
		write_number(writer, "static_shared (bytes)", config->static_shared_bytes);
	}
	write_number(writer, "time (ns)", launch->total_ns);
	writer->format->end_map(writer->context);
}

static void write_configs(struct tree_writer *writer, uint32_t kernel)
{
	const struct profile *profile = writer->plan.profile;

	writer->format->key(writer->context, "configs");
	writer->format->begin_array(writer->context, tree_plan_configs(&writer->plan, kernel));
	for (uint32_t l = profile->kernels[kernel].first_config; l; l = profile->configs[l].next)
		write_config(writer, &profile->configs[l]);
	writer->format->end_array(writer->context);
}

static void write_kernel_extras(struct tree_writer *writer, uint32_t kernel, uint32_t members)
{
	const struct profile *profile = writer->plan.profile;
	const struct profile_kernel *row = &profile->kernels[kernel];
	bool has_range = tree_plan_has_range(&writer->plan, kernel);

	begin_extras(writer, members);
	if (row->histogram && has_range)
		write_histogram(writer, &profile->histograms[row->histogram]);
	if (row->first_config)
		write_configs(writer, kernel);
	if (has_range) {
		write_number(writer, "max (ns)", row->max_ns);
		write_number(writer, "min (ns)", row->min_ns);
	}
	end_extras(writer);
}

static void write_counters(struct tree_writer *writer, bool is_loss)
{
	const struct profile *profile = writer->plan.profile;
	uint32_t count = tree_plan_counters(&writer->plan, is_loss);

	if (!count)
		return;
	writer->format->key(writer->context, is_loss ? "losses" : "counters");
	writer->format->begin_map(writer->context, count);
	for (size_t i = 0; i < profile->counter_count; i++)
		if (tree_plan_shows_counter(&profile->counters[i], is_loss))
			write_number(writer, profile_text(profile, profile->counters[i].name),
				     profile->counters[i].value);
	writer->format->end_map(writer->context);
}

static void write_info(struct tree_writer *writer)
{
	const struct profile *profile = writer->plan.profile;

	writer->format->key(writer->context, "info");
	writer->format->begin_map(writer->context, profile->info_count);
	for (size_t i = 0; i < profile->info_count; i++) {
		writer->format->key(writer->context, profile_text(profile, profile->info[i].key));
		write_text(writer, profile->info[i].value);
	}
	writer->format->end_map(writer->context);
}

static void write_root_extras(struct tree_writer *writer, uint32_t members)
{
	const struct profile *profile = writer->plan.profile;

	begin_extras(writer, members);
	write_counters(writer, false);
	if (profile->is_damaged)
		write_true(writer, "damaged");
	if (profile->end_ns)
		write_number(writer, "end_time (ns)", profile->end_ns);
	if (profile->info_count)
		write_info(writer);
	write_counters(writer, true);
	if (tree_plan_has_root_rest(&writer->plan)) {
		if (!tree_plan_root_rest(&writer->plan))
			writer->is_out_of_memory = true;
		fixed_key(writer, FIXED_METRICS);
		write_entries(writer);
	}
	if (profile->start_ns)
		write_number(writer, "start_time (ns)", profile->start_ns);
	if (profile->is_unfinished)
		write_true(writer, "unfinished");
	end_extras(writer);
}

/* ------------------------------------------------------------------ nodes */

/* The number of members of a node's "proton" object; 0: no object. */
static uint32_t count_extras(const struct tree_writer *writer, uint32_t node, uint32_t kernel)
{
	return node == 0 ? tree_plan_root_extras(&writer->plan)
			 : tree_plan_kernel_extras(&writer->plan, kernel);
}

/* Writes all members of a node except its children. */
static void write_members(struct tree_writer *writer, uint32_t node, uint32_t kernel,
			  uint32_t extras)
{
	const struct tree_format *format = writer->format;
	uint32_t frame = writer->plan.profile->nodes[node].frame;
	size_t length;
	const char *name =
		plan_frame_text(&writer->frames, &writer->plan, frame, format->encode, &length);

	fixed_key(writer, FIXED_FRAME);
	format->begin_map(writer->context, 2);
	fixed_key(writer, FIXED_NAME);
	if (name)
		format->encoded(writer->context, name, length);
	else
		writer->is_out_of_memory = true;
	fixed_key(writer, FIXED_TYPE);
	fixed_string(writer, FIXED_FUNCTION);
	format->end_map(writer->context);
	if (!tree_plan_entries(&writer->plan, node, kernel))
		writer->is_out_of_memory = true;
	fixed_key(writer, FIXED_METRICS);
	write_entries(writer);
	if (extras && node == 0)
		write_root_extras(writer, extras);
	else if (extras)
		write_kernel_extras(writer, kernel, extras);
}

/* Writes a node up to the start of its list of children. */
static void open_node(struct tree_writer *writer, uint32_t node, uint32_t kernel, uint64_t children)
{
	const struct tree_format *format = writer->format;
	uint32_t extras = format->wants_lengths ? count_extras(writer, node, kernel) : 0;

	format->before_part(writer->context);
	format->begin_map(writer->context, extras ? 4 : 3);
	if (!format->is_children_first)
		write_members(writer, node, kernel, extras);
	fixed_key(writer, FIXED_CHILDREN);
	format->begin_array(writer->context, children);
}

static void close_node(struct tree_writer *writer, uint32_t node, uint32_t kernel)
{
	const struct tree_format *format = writer->format;

	format->end_array(writer->context);
	if (format->is_children_first)
		write_members(writer, node, kernel, count_extras(writer, node, kernel));
	format->end_map(writer->context);
}

/*
 * The number of nodes that represent the children of `node`: one per device of each, at least one.
 */
static uint64_t count_children(const struct profile *profile, uint32_t node)
{
	uint64_t count = 0;

	for (uint32_t c = profile->nodes[node].first_child; c; c = profile->nodes[c].next_sibling) {
		uint32_t kernel = profile->nodes[c].first_kernel;

		count++;
		for (; kernel && profile->kernels[kernel].next;
		     kernel = profile->kernels[kernel].next)
			count++;
	}
	return count;
}

static void enter_node(struct tree_writer *writer, uint32_t node)
{
	const struct profile *profile = writer->plan.profile;

	open_node(writer, node, profile->nodes[node].first_kernel,
		  writer->format->wants_lengths ? count_children(profile, node) : 0);
}

/* Ends `node` and writes the siblings for its kernels on further devices. */
static void leave_node(struct tree_writer *writer, uint32_t node)
{
	const struct profile *profile = writer->plan.profile;
	uint32_t kernel = profile->nodes[node].first_kernel;

	close_node(writer, node, kernel);
	if (!kernel || node == 0)
		return;
	while ((kernel = profile->kernels[kernel].next)) {
		open_node(writer, node, kernel, 0);
		close_node(writer, node, kernel);
	}
}

static void write_tree(struct tree_writer *writer)
{
	const struct profile_node *nodes = writer->plan.profile->nodes;
	uint32_t node = 0;

	enter_node(writer, node);
	for (;;) {
		if (writer->format->has_failed(writer->context))
			return;
		if (nodes[node].first_child) {
			node = nodes[node].first_child;
			enter_node(writer, node);
			continue;
		}
		for (;;) {
			leave_node(writer, node);
			if (node == 0)
				return;
			if (nodes[node].next_sibling)
				break;
			node = nodes[node].parent;
		}
		node = nodes[node].next_sibling;
		enter_node(writer, node);
	}
}

/* ------------------------------------------------------------------ devices */

/* The number of devices of the same type as the one at `first`; the table is sorted by type. */
static size_t count_same_type(const struct tree_plan *plan, size_t first)
{
	size_t end = first;

	while (end < plan->device_count &&
	       strcmp(plan->devices[end].type, plan->devices[first].type) == 0)
		end++;
	return end - first;
}

static void write_device(struct tree_writer *writer, const struct plan_device *row)
{
	const struct profile_device *device = &writer->plan.profile->devices[row->device];

	writer->format->key(writer->context, row->id);
	writer->format->begin_map(writer->context, 5);
	writer->format->key(writer->context, "arch");
	write_text(writer, device->arch);
	write_number(writer, "bus_width", device->bus_width_bits);
	write_number(writer, "clock_rate", device->clock_khz);
	write_number(writer, "memory_clock_rate", device->memory_clock_khz);
	write_number(writer, "num_sms", device->processors);
	writer->format->end_map(writer->context);
}

static void write_devices(struct tree_writer *writer)
{
	const struct tree_plan *plan = &writer->plan;
	uint64_t types = 0;

	for (size_t i = 0; i < plan->device_count; i += count_same_type(plan, i))
		types++;
	writer->format->begin_map(writer->context, types);
	for (size_t i = 0; i < plan->device_count;) {
		size_t end = i + count_same_type(plan, i);

		writer->format->key(writer->context, plan->devices[i].type);
		writer->format->begin_map(writer->context, end - i);
		for (; i < end; i++)
			write_device(writer, &plan->devices[i]);
		writer->format->end_map(writer->context);
	}
	writer->format->end_map(writer->context);
}

/* ------------------------------------------------------------------ the whole */

static int encode_texts(struct tree_writer *writer, struct proton_error *err)
{
	int status =
		plan_texts_of_frames(&writer->frames, &writer->plan, writer->format->encode, err);

	if (status == PROTON_OK)
		status = plan_texts_of_keys(&writer->keys, &writer->plan, writer->format->encode,
					    err);
	for (size_t i = 0; i < FIXED_TEXTS; i++) {
		writer->format->encode(&writer->fixed, fixed_texts[i], strlen(fixed_texts[i]));
		writer->fixed_ends[i + 1] = writer->fixed.length;
	}
	return status == PROTON_OK ? out_finish(&writer->fixed, err) : status;
}

int tree_write(const struct profile *profile, const struct tree_format *format, void *context,
	       struct proton_error *err)
{
	struct tree_writer writer = {.format = format, .context = context};
	int status = tree_plan_init(&writer.plan, profile, err);

	if (status != PROTON_OK)
		return status;
	out_init(&writer.fixed, -1);
	status = encode_texts(&writer, err);
	if (status == PROTON_OK) {
		format->whole(context, true);
		format->begin_array(context, 2);
		write_tree(&writer);
		format->before_part(context);
		write_devices(&writer);
		format->end_array(context);
		format->whole(context, false);
		if (writer.is_out_of_memory)
			status = err_nomem(err);
	}
	plan_texts_fini(&writer.frames);
	plan_texts_fini(&writer.keys);
	out_fini(&writer.fixed);
	tree_plan_fini(&writer.plan);
	return status;
}
