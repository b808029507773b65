/*
 * hatchet JSON: [tree, devices], for llnl-hatchet, for upstream's viewer and for ours. See
 * docs/design/hatchet-output.md; what is said comes from tree_plan.c, this file knows the syntax.
 *
 * A node's children stand before its frame and metrics, so the tree is walked along its links, with
 * something to write on the way in and on the way out, and without recursion: contexts of Python
 * programs are thousands deep.
 */
#include "export/export.h"

#include <stdio.h>

#include "export/tree_plan.h"
#include "format/json_write.h"

/*
 * Indentation is most of a pretty file, and at this many nodes it is hundreds of megabytes that
 * nobody looks at. From here on a node is a line.
 */
#define PRETTY_NODES_MAX 100000u

enum layout {
	LAYOUT_PRETTY,
	LAYOUT_LINES,
	LAYOUT_COMPACT,
};

struct hatchet {
	enum layout layout;
	struct tree_plan plan;
	struct plan_texts frames; /* quoted */
	struct plan_texts keys;
	struct json_writer json;
	bool is_out_of_memory;
};

/* A key that is a literal of this file. */
#define KEY(writer, text) json_key_quoted(writer, "\"" text "\"", sizeof("\"" text "\"") - 1)

static double word_to_double(uint64_t word)
{
	double value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

static void write_vector(struct json_writer *json, const uint64_t *words, bool is_double)
{
	json_begin_array(json);
	for (uint64_t i = 1; i <= words[0]; i++) {
		if (is_double)
			json_double(json, word_to_double(words[i]));
		else
			json_int64(json, (int64_t)words[i]);
	}
	json_end_array(json);
}

static void write_entry(struct hatchet *hatchet, const struct plan_entry *entry)
{
	struct json_writer *json = &hatchet->json;
	size_t length;
	const char *key = plan_text(&hatchet->keys, entry->key, &length);

	json_key_quoted(json, key, length);
	switch (entry->type) {
	case PLAN_INT64:
		json_int64(json, entry->as.int64);
		break;
	case PLAN_UINT64:
		json_uint64(json, entry->as.uint64);
		break;
	case PLAN_DOUBLE:
		json_double(json, entry->as.float64);
		break;
	case PLAN_STRING:
		json_string(json, entry->as.text.bytes, entry->as.text.length);
		break;
	case PLAN_INT64_VECTOR:
	case PLAN_DOUBLE_VECTOR:
		write_vector(json, entry->as.words, entry->type == PLAN_DOUBLE_VECTOR);
		break;
	}
}

/*
 * The object with what upstream's files do not have is on one line, however pretty the rest is:
 * people read the rest. Returns what close_extras() wants.
 */
static bool open_extras(struct json_writer *json)
{
	bool is_pretty = json->is_pretty;

	KEY(json, "proton");
	json_begin_object(json);
	json->is_pretty = false;
	return is_pretty;
}

static void close_extras(struct json_writer *json, bool is_pretty)
{
	json_end_object(json);
	json->is_pretty = is_pretty;
}

static void write_histogram(struct json_writer *json, const struct row_histogram *histogram)
{
	KEY(json, "histogram (ns)");
	json_begin_object(json);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		char text[24];

		if (!histogram->bucket[i])
			continue;
		snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)histogram_bucket_start_ns(i));
		json_key(json, text);
		json_uint64(json, histogram->bucket[i]);
	}
	json_end_object(json);
}

static void write_dimensions(struct json_writer *json, const uint32_t dimensions[3])
{
	json_begin_array(json);
	for (int i = 0; i < 3; i++)
		json_uint64(json, dimensions[i]);
	json_end_array(json);
}

static void write_config(struct json_writer *json, const struct profile_config *launch)
{
	const struct launch_config *config = &launch->config;
	bool is_other = launch->flags & CONFIG_OTHER;

	json_begin_object(json);
	if (!is_other) {
		KEY(json, "block");
		write_dimensions(json, config->block);
	}
	KEY(json, "count");
	json_uint64(json, launch->count);
	if (!is_other) {
		KEY(json, "dynamic_shared (bytes)");
		json_uint64(json, config->dynamic_shared_bytes);
		KEY(json, "grid");
		write_dimensions(json, config->grid);
		KEY(json, "registers");
		json_uint64(json, config->registers_per_thread);
		KEY(json, "static_shared (bytes)");
		json_uint64(json, config->static_shared_bytes);
	}
	KEY(json, "time (ns)");
	json_uint64(json, launch->total_ns);
	json_end_object(json);
}

static void write_configs(struct hatchet *hatchet, uint32_t launch)
{
	const struct profile *profile = hatchet->plan.profile;

	KEY(&hatchet->json, "configs");
	json_begin_array(&hatchet->json);
	for (; launch; launch = profile->configs[launch].next)
		write_config(&hatchet->json, &profile->configs[launch]);
	json_end_array(&hatchet->json);
}

static void write_kernel_extras(struct hatchet *hatchet, uint32_t kernel)
{
	const struct profile *profile = hatchet->plan.profile;
	const struct profile_kernel *row = &profile->kernels[kernel];
	struct json_writer *json = &hatchet->json;
	bool is_pretty = open_extras(json);

	if (row->histogram && tree_plan_has_range(&hatchet->plan, kernel))
		write_histogram(json, &profile->histograms[row->histogram]);
	if (row->first_config)
		write_configs(hatchet, row->first_config);
	if (tree_plan_has_range(&hatchet->plan, kernel)) {
		KEY(json, "max (ns)");
		json_uint64(json, row->max_ns);
		KEY(json, "min (ns)");
		json_uint64(json, row->min_ns);
	}
	close_extras(json, is_pretty);
}

static void write_counters(struct hatchet *hatchet, bool is_loss)
{
	const struct profile *profile = hatchet->plan.profile;
	struct json_writer *json = &hatchet->json;

	if (!tree_plan_counters(&hatchet->plan, is_loss))
		return;
	json_key(json, is_loss ? "losses" : "counters");
	json_begin_object(json);
	for (size_t i = 0; i < profile->counter_count; i++) {
		if (!tree_plan_shows_counter(&profile->counters[i], is_loss))
			continue;
		json_key(json, profile_text(profile, profile->counters[i].name));
		json_uint64(json, profile->counters[i].value);
	}
	json_end_object(json);
}

static void write_root_extras(struct hatchet *hatchet)
{
	const struct profile *profile = hatchet->plan.profile;
	struct json_writer *json = &hatchet->json;
	bool is_pretty = open_extras(json);

	write_counters(hatchet, false);
	if (profile->is_damaged) {
		KEY(json, "damaged");
		json_bool(json, true);
	}
	if (profile->end_ns) {
		KEY(json, "end_time (ns)");
		json_uint64(json, profile->end_ns);
	}
	if (profile->info_count) {
		KEY(json, "info");
		json_begin_object(json);
		for (size_t i = 0; i < profile->info_count; i++) {
			uint32_t value = profile->info[i].value;

			json_key(json, profile_text(profile, profile->info[i].key));
			json_string(json, profile_text(profile, value),
				    string_length(&profile->strings, value));
		}
		json_end_object(json);
	}
	write_counters(hatchet, true);
	if (tree_plan_has_root_rest(&hatchet->plan)) {
		KEY(json, "metrics");
		json_begin_object(json);
		if (!tree_plan_root_rest(&hatchet->plan))
			hatchet->is_out_of_memory = true;
		for (size_t i = 0; i < hatchet->plan.entry_count; i++)
			write_entry(hatchet, &hatchet->plan.entries[i]);
		json_end_object(json);
	}
	if (profile->start_ns) {
		KEY(json, "start_time (ns)");
		json_uint64(json, profile->start_ns);
	}
	if (profile->is_unfinished) {
		KEY(json, "unfinished");
		json_bool(json, true);
	}
	close_extras(json, is_pretty);
}

static void open_node(struct hatchet *hatchet)
{
	if (hatchet->layout == LAYOUT_LINES)
		json_line_break(&hatchet->json);
	json_begin_object(&hatchet->json);
	KEY(&hatchet->json, "children");
	json_begin_array(&hatchet->json);
}

/* What follows the children of `node`, for one of its kernels (0: it has none). */
static void close_node(struct hatchet *hatchet, uint32_t node, uint32_t kernel)
{
	struct json_writer *json = &hatchet->json;
	struct tree_plan *plan = &hatchet->plan;
	uint32_t frame = plan->profile->nodes[node].frame;
	size_t length;
	const char *name = plan_text(&hatchet->frames, frame, &length);

	json_end_array(json);
	KEY(json, "frame");
	json_begin_object(json);
	KEY(json, "name");
	json_string_quoted(json, name, length);
	KEY(json, "type");
	json_string_quoted(json, "\"function\"", 10);
	json_end_object(json);
	KEY(json, "metrics");
	json_begin_object(json);
	if (!tree_plan_entries(plan, node, kernel))
		hatchet->is_out_of_memory = true;
	for (size_t i = 0; i < plan->entry_count; i++)
		write_entry(hatchet, &plan->entries[i]);
	json_end_object(json);
	if (node == 0 && tree_plan_root_extras(plan))
		write_root_extras(hatchet);
	else if (node != 0 && tree_plan_kernel_extras(plan, kernel))
		write_kernel_extras(hatchet, kernel);
	json_end_object(json);
}

/* Ends `node` and writes the siblings that stand for its kernels on further devices. */
static void leave_node(struct hatchet *hatchet, uint32_t node)
{
	const struct profile *profile = hatchet->plan.profile;
	uint32_t kernel = profile->nodes[node].first_kernel;

	close_node(hatchet, node, kernel);
	if (!kernel || node == 0)
		return;
	while ((kernel = profile->kernels[kernel].next)) {
		open_node(hatchet);
		close_node(hatchet, node, kernel);
	}
}

static void write_tree(struct hatchet *hatchet)
{
	const struct profile_node *nodes = hatchet->plan.profile->nodes;
	uint32_t node = 0;

	open_node(hatchet);
	for (;;) {
		if (nodes[node].first_child) {
			node = nodes[node].first_child;
			open_node(hatchet);
			continue;
		}
		for (;;) {
			leave_node(hatchet, node);
			if (node == 0)
				return;
			if (nodes[node].next_sibling)
				break;
			node = nodes[node].parent;
		}
		node = nodes[node].next_sibling;
		open_node(hatchet);
	}
}

static void write_devices(struct hatchet *hatchet)
{
	const struct tree_plan *plan = &hatchet->plan;
	const struct profile *profile = plan->profile;
	struct json_writer *json = &hatchet->json;
	const char *type = NULL;

	json_begin_object(json);
	for (size_t i = 0; i < plan->device_count; i++) {
		const struct profile_device *device = &profile->devices[plan->devices[i].device];

		if (!type || strcmp(type, plan->devices[i].type) != 0) {
			if (type)
				json_end_object(json);
			type = plan->devices[i].type;
			json_key(json, type);
			json_begin_object(json);
		}
		json_key(json, plan->devices[i].id);
		json_begin_object(json);
		KEY(json, "arch");
		json_string(json, profile_text(profile, device->arch),
			    string_length(&profile->strings, device->arch));
		KEY(json, "bus_width");
		json_uint64(json, device->bus_width_bits);
		KEY(json, "clock_rate");
		json_uint64(json, device->clock_khz);
		KEY(json, "memory_clock_rate");
		json_uint64(json, device->memory_clock_khz);
		KEY(json, "num_sms");
		json_uint64(json, device->processors);
		json_end_object(json);
	}
	if (type)
		json_end_object(json);
	json_end_object(json);
}

static int export_json(const struct profile *profile, struct out *out, enum layout layout,
		       struct proton_error *err)
{
	struct hatchet hatchet = {.layout = layout};
	int status = tree_plan_init(&hatchet.plan, profile, err);

	if (status != PROTON_OK)
		return status;
	status = plan_texts_of_frames(&hatchet.frames, &hatchet.plan, json_quote, err);
	if (status == PROTON_OK)
		status = plan_texts_of_keys(&hatchet.keys, &hatchet.plan, json_quote, err);
	if (status == PROTON_OK) {
		json_writer_init(&hatchet.json, out, layout == LAYOUT_PRETTY);
		if (layout == LAYOUT_PRETTY)
			out_byte(out, '\n');
		json_begin_array(&hatchet.json);
		write_tree(&hatchet);
		if (layout == LAYOUT_LINES)
			json_line_break(&hatchet.json);
		write_devices(&hatchet);
		json_end_array(&hatchet.json);
		if (layout != LAYOUT_COMPACT)
			out_byte(out, '\n');
		if (hatchet.is_out_of_memory)
			status = err_set(err, PROTON_E_NOMEM, "out of memory");
	}
	plan_texts_fini(&hatchet.frames);
	plan_texts_fini(&hatchet.keys);
	tree_plan_fini(&hatchet.plan);
	return status;
}

int export_hatchet(const struct profile *profile, struct out *out, struct proton_error *err)
{
	return export_json(profile, out,
			   profile->node_count > PRETTY_NODES_MAX ? LAYOUT_LINES : LAYOUT_PRETTY,
			   err);
}

int export_hatchet_compact(const struct profile *profile, struct out *out, struct proton_error *err)
{
	return export_json(profile, out, LAYOUT_COMPACT, err);
}
