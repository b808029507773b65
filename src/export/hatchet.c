/*
 * hatchet files, [tree, devices], in JSON and in MessagePack, for llnl-hatchet and the viewers. See
 * docs/design/hatchet-output.md; tree_plan.h determines the content.
 *
 * In JSON, children are the first member of a node. MessagePack has upstream's order, frame,
 * metrics, (proton,) children, and the length of a container before its elements.
 *
 * The traversal follows the links of the tree without recursion, because contexts of Python
 * programs are thousands of frames deep, and writes something before and after the children of a
 * node.
 */
#include <stdio.h>

#include "base/buf.h"
#include "export/export.h"
#include "export/tree_plan.h"
#include "format/json_write.h"
#include "format/msgpack_write.h"

/*
 * Indentation is most of a formatted file; with this many nodes it would be hundreds of megabytes.
 * Larger profiles have one node per line.
 */
#define PRETTY_NODES_MAX 100000u

enum layout {
	LAYOUT_PRETTY,
	LAYOUT_LINES,
	LAYOUT_COMPACT,
	LAYOUT_MSGPACK,
};

/* Texts of every node: encoded once, as are the keys of metrics after them. */
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
	enum layout layout;
	struct out *out;
	struct json_writer json;
	struct tree_plan plan;
	struct plan_texts frames;
	struct out texts;
	size_t *text_ends; /* the end of text i - 1 */
};

/* ------------------------------------------------------------------ syntax */

static bool is_json(const struct tree_writer *writer)
{
	return writer->layout != LAYOUT_MSGPACK;
}

static void begin_map(struct tree_writer *writer, uint64_t pairs)
{
	if (is_json(writer))
		json_begin_object(&writer->json);
	else
		msgpack_map(writer->out, pairs);
}

static void end_map(struct tree_writer *writer)
{
	if (is_json(writer))
		json_end_object(&writer->json);
}

static void begin_array(struct tree_writer *writer, uint64_t elements)
{
	if (is_json(writer))
		json_begin_array(&writer->json);
	else
		msgpack_array(writer->out, elements);
}

static void end_array(struct tree_writer *writer)
{
	if (is_json(writer))
		json_end_array(&writer->json);
}

static void write_key(struct tree_writer *writer, const char *text)
{
	if (is_json(writer))
		json_key(&writer->json, text);
	else
		msgpack_text(writer->out, text);
}

static void encoded(struct tree_writer *writer, const char *bytes, size_t length)
{
	if (is_json(writer))
		json_string_quoted(&writer->json, bytes, length);
	else
		out_bytes(writer->out, bytes, length);
}

static void write_string(struct tree_writer *writer, const char *text, size_t length)
{
	if (is_json(writer))
		json_string(&writer->json, text, length);
	else
		msgpack_string(writer->out, text, length);
}

static void write_int64(struct tree_writer *writer, int64_t value)
{
	if (is_json(writer))
		json_int64(&writer->json, value);
	else
		msgpack_int64(writer->out, value);
}

static void write_uint64(struct tree_writer *writer, uint64_t value)
{
	if (is_json(writer))
		json_uint64(&writer->json, value);
	else
		msgpack_uint64(writer->out, value);
}

static void write_double(struct tree_writer *writer, double value)
{
	if (is_json(writer))
		json_double(&writer->json, value);
	else
		msgpack_double(writer->out, value);
}

/* A node or the device table follows. */
static void before_part(struct tree_writer *writer)
{
	if (writer->layout == LAYOUT_LINES)
		json_line_break(&writer->json);
}

/* ------------------------------------------------------------------ values */

static void encoded_key(struct tree_writer *writer, size_t text)
{
	size_t begin = writer->text_ends[text];
	size_t length = writer->text_ends[text + 1] - begin;

	if (is_json(writer))
		json_key_quoted(&writer->json, writer->texts.bytes + begin, length);
	else
		out_bytes(writer->out, writer->texts.bytes + begin, length);
}

static void write_number(struct tree_writer *writer, const char *key, uint64_t value)
{
	write_key(writer, key);
	write_uint64(writer, value);
}

static void write_true(struct tree_writer *writer, const char *key)
{
	write_key(writer, key);
	if (is_json(writer))
		json_bool(&writer->json, true);
	else
		msgpack_bool(writer->out, true);
}

static void write_text(struct tree_writer *writer, uint32_t string)
{
	const struct profile *profile = writer->plan.profile;

	write_string(writer, profile_text(profile, string),
		     string_length(&profile->strings, string));
}

static void write_entry(struct tree_writer *writer, const struct plan_entry *entry)
{
	const uint64_t *words;

	encoded_key(writer, FIXED_TEXTS + entry->key);
	switch (entry->type) {
	case PROTON_METRIC_INT64:
		write_int64(writer, entry->as.int64);
		break;
	case PROTON_METRIC_DOUBLE:
		write_double(writer, entry->as.float64);
		break;
	case PROTON_METRIC_STRING:
		write_text(writer, entry->as.string);
		break;
	case PLAN_UINT64:
		write_uint64(writer, entry->as.uint64);
		break;
	case PLAN_TEXT:
		write_string(writer, entry->as.text, strlen(entry->as.text));
		break;
	default: /* a vector */
		words = writer->plan.profile->words + entry->as.vector;
		begin_array(writer, words[0]);
		for (uint64_t i = 1; i <= words[0]; i++) {
			if (entry->type == PROTON_METRIC_DOUBLE_VECTOR)
				write_double(writer, double_of_bits(words[i]));
			else
				write_int64(writer, (int64_t)words[i]);
		}
		end_array(writer);
	}
}

static void write_entries(struct tree_writer *writer)
{
	begin_map(writer, writer->plan.entry_count);
	for (size_t i = 0; i < writer->plan.entry_count; i++)
		write_entry(writer, &writer->plan.entries[i]);
	end_map(writer);
}

/* ------------------------------------------------------------------ extras */

/* Members that upstream's files lack. In JSON on one line, even in a formatted file for users. */
static void begin_extras(struct tree_writer *writer, uint64_t members)
{
	write_key(writer, "proton");
	begin_map(writer, members);
	writer->json.is_pretty = false;
}

static void end_extras(struct tree_writer *writer)
{
	end_map(writer);
	writer->json.is_pretty = writer->layout == LAYOUT_PRETTY;
}

static void write_histogram(struct tree_writer *writer, const struct row_histogram *histogram)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		used += histogram->bucket[i] != 0;
	write_key(writer, "histogram (ns)");
	begin_map(writer, used);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		char text[24];

		if (!histogram->bucket[i])
			continue;
		snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)histogram_bucket_start_ns(i));
		write_number(writer, text, histogram->bucket[i]);
	}
	end_map(writer);
}

static void write_dimensions(struct tree_writer *writer, const char *key,
			     const uint32_t dimensions[3])
{
	write_key(writer, key);
	begin_array(writer, 3);
	for (int i = 0; i < 3; i++)
		write_uint64(writer, dimensions[i]);
	end_array(writer);
}

static void write_config(struct tree_writer *writer, const struct row_config *launch)
{
	const struct launch_config *config = &launch->config;
	bool is_other = launch->flags & CONFIG_OTHER;

	begin_map(writer, is_other ? 2 : 7);
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
	end_map(writer);
}

static void write_configs(struct tree_writer *writer, uint32_t kernel)
{
	const struct profile *profile = writer->plan.profile;

	write_key(writer, "configs");
	begin_array(writer, tree_plan_configs(&writer->plan, kernel));
	for (uint32_t l = profile->kernels[kernel].first_config; l; l = profile->configs[l].next)
		write_config(writer, &profile->configs[l]);
	end_array(writer);
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
	write_key(writer, is_loss ? "losses" : "counters");
	begin_map(writer, count);
	for (size_t i = 0; i < profile->counter_count; i++)
		if (tree_plan_shows_counter(&profile->counters[i], is_loss))
			write_number(writer, profile_text(profile, profile->counters[i].name),
				     profile->counters[i].value);
	end_map(writer);
}

static void write_info(struct tree_writer *writer)
{
	const struct profile *profile = writer->plan.profile;

	write_key(writer, "info");
	begin_map(writer, profile->info_count);
	for (size_t i = 0; i < profile->info_count; i++) {
		write_key(writer, profile_text(profile, profile->info[i].key));
		write_text(writer, profile->info[i].value);
	}
	end_map(writer);
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
		if (!tree_plan_entries(&writer->plan, 0, profile->nodes[0].first_kernel, true))
			out_fail(writer->out, ENOMEM);
		encoded_key(writer, FIXED_METRICS);
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
	uint32_t frame = writer->plan.profile->nodes[node].frame;
	size_t length;
	const char *name = plan_text(&writer->frames, frame, &length);

	encoded_key(writer, FIXED_FRAME);
	begin_map(writer, 2);
	encoded_key(writer, FIXED_NAME);
	if (name)
		encoded(writer, name, length);
	else
		out_fail(writer->out, ENOMEM);
	encoded_key(writer, FIXED_TYPE);
	encoded(writer, writer->texts.bytes + writer->text_ends[FIXED_FUNCTION],
		writer->text_ends[FIXED_FUNCTION + 1] - writer->text_ends[FIXED_FUNCTION]);
	end_map(writer);
	if (!tree_plan_entries(&writer->plan, node, kernel, false))
		out_fail(writer->out, ENOMEM);
	encoded_key(writer, FIXED_METRICS);
	write_entries(writer);
	if (extras && node == 0)
		write_root_extras(writer, extras);
	else if (extras)
		write_kernel_extras(writer, kernel, extras);
}

/* Writes a node up to the start of its list of children. */
static void open_node(struct tree_writer *writer, uint32_t node, uint32_t kernel, uint64_t children)
{
	/* In JSON, close_node() writes the members. */
	uint32_t extras = is_json(writer) ? 0 : count_extras(writer, node, kernel);

	before_part(writer);
	begin_map(writer, extras ? 4 : 3);
	if (!is_json(writer))
		write_members(writer, node, kernel, extras);
	encoded_key(writer, FIXED_CHILDREN);
	begin_array(writer, children);
}

static void close_node(struct tree_writer *writer, uint32_t node, uint32_t kernel)
{
	end_array(writer);
	if (is_json(writer))
		write_members(writer, node, kernel, count_extras(writer, node, kernel));
	end_map(writer);
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
		  is_json(writer) ? 0 : count_children(profile, node));
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
		if (writer->out->errnum)
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
	const struct row_device *device = &writer->plan.profile->devices[row->device];

	write_key(writer, row->id);
	begin_map(writer, 5);
	write_key(writer, "arch");
	write_text(writer, device->arch);
	write_number(writer, "bus_width", device->bus_width_bits);
	write_number(writer, "clock_rate", device->clock_khz);
	write_number(writer, "memory_clock_rate", device->memory_clock_khz);
	write_number(writer, "num_sms", device->processors);
	end_map(writer);
}

static void write_devices(struct tree_writer *writer)
{
	const struct tree_plan *plan = &writer->plan;
	uint64_t types = 0;

	for (size_t i = 0; i < plan->device_count; i += count_same_type(plan, i))
		types++;
	begin_map(writer, types);
	for (size_t i = 0; i < plan->device_count;) {
		size_t end = i + count_same_type(plan, i);

		write_key(writer, plan->devices[i].type);
		begin_map(writer, end - i);
		for (; i < end; i++)
			write_device(writer, &plan->devices[i]);
		end_map(writer);
	}
	end_map(writer);
}

/* ------------------------------------------------------------------ the whole */

static int encode_texts(struct tree_writer *writer, struct proton_error *err)
{
	const struct tree_plan *plan = &writer->plan;
	plan_encode_fn *encode = is_json(writer) ? json_quote : msgpack_string;
	int status = plan_texts_init(&writer->frames, plan->profile, encode, err);

	writer->text_ends = calloc(FIXED_TEXTS + plan->key_count + 1, sizeof(*writer->text_ends));
	if (!writer->text_ends)
		return err_nomem(err);
	for (size_t i = 0; i < FIXED_TEXTS + plan->key_count; i++) {
		if (i < FIXED_TEXTS)
			encode(&writer->texts, fixed_texts[i], strlen(fixed_texts[i]));
		else
			encode(&writer->texts, plan->keys[i - FIXED_TEXTS].text,
			       plan->keys[i - FIXED_TEXTS].length);
		writer->text_ends[i + 1] = writer->texts.length;
	}
	return status == PROTON_OK ? out_finish(&writer->texts, err) : status;
}

static int export_tree(const struct profile *profile, struct out *out, enum layout layout,
		       struct proton_error *err)
{
	struct tree_writer writer = {.layout = layout, .out = out, .texts = OUT_IN_MEMORY};

	TRY(tree_plan_init(&writer.plan, profile, err));
	json_writer_init(&writer.json, out, layout == LAYOUT_PRETTY);
	int status = encode_texts(&writer, err);
	if (status == PROTON_OK) {
		if (layout == LAYOUT_PRETTY)
			out_byte(out, '\n'); /* as upstream */
		begin_array(&writer, 2);
		write_tree(&writer);
		before_part(&writer);
		write_devices(&writer);
		end_array(&writer);
		if (layout == LAYOUT_PRETTY || layout == LAYOUT_LINES)
			out_byte(out, '\n');
	}
	plan_texts_fini(&writer.frames);
	out_fini(&writer.texts);
	free(writer.text_ends);
	tree_plan_fini(&writer.plan);
	return status;
}

int export_hatchet(const struct profile *profile, struct out *out, struct proton_error *err)
{
	bool is_large = profile->node_count > PRETTY_NODES_MAX;

	return export_tree(profile, out, is_large ? LAYOUT_LINES : LAYOUT_PRETTY, err);
}

int export_hatchet_compact(const struct profile *profile, struct out *out, struct proton_error *err)
{
	return export_tree(profile, out, LAYOUT_COMPACT, err);
}

int export_msgpack(const struct profile *profile, struct out *out, struct proton_error *err)
{
	return export_tree(profile, out, LAYOUT_MSGPACK, err);
}
