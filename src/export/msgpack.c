/*
 * hatchet's lists in MessagePack: the same content as hatchet JSON (export/hatchet.c), with a
 * node's members in upstream's order: frame, metrics, (proton,) children. Every container's length
 * stands before it, and nothing behind its last element, so the walk writes on the way in only.
 */
#include "export/export.h"

#include <stdio.h>

#include "export/tree_plan.h"
#include "format/msgpack_write.h"

struct packer {
	struct tree_plan plan;
	struct plan_texts frames; /* encoded */
	struct plan_texts keys;
	struct out *out;
	bool is_out_of_memory;
};

static void write_vector(struct out *out, const uint64_t *words, bool is_double)
{
	msgpack_array(out, words[0]);
	for (uint64_t i = 1; i <= words[0]; i++) {
		double value;

		memcpy(&value, &words[i], sizeof(value));
		if (is_double)
			msgpack_double(out, value);
		else
			msgpack_int64(out, (int64_t)words[i]);
	}
}

static void write_entry(struct packer *packer, const struct plan_entry *entry)
{
	struct out *out = packer->out;
	size_t length;
	const char *key = plan_text(&packer->keys, entry->key, &length);

	out_bytes(out, key, length);
	switch (entry->type) {
	case PLAN_INT64:
		msgpack_int64(out, entry->as.int64);
		break;
	case PLAN_UINT64:
		msgpack_uint64(out, entry->as.uint64);
		break;
	case PLAN_DOUBLE:
		msgpack_double(out, entry->as.float64);
		break;
	case PLAN_STRING:
		msgpack_string(out, entry->as.text.bytes, entry->as.text.length);
		break;
	case PLAN_INT64_VECTOR:
	case PLAN_DOUBLE_VECTOR:
		write_vector(out, entry->as.words, entry->type == PLAN_DOUBLE_VECTOR);
		break;
	}
}

static void write_histogram(struct out *out, const struct row_histogram *histogram)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		used += histogram->bucket[i] != 0;
	msgpack_text(out, "histogram (ns)");
	msgpack_map(out, used);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		char text[24];

		if (!histogram->bucket[i])
			continue;
		snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)histogram_bucket_start_ns(i));
		msgpack_text(out, text);
		msgpack_uint64(out, histogram->bucket[i]);
	}
}

static void write_dimensions(struct out *out, const char *key, const uint32_t dimensions[3])
{
	msgpack_text(out, key);
	msgpack_array(out, 3);
	for (int i = 0; i < 3; i++)
		msgpack_uint64(out, dimensions[i]);
}

static void write_number(struct out *out, const char *key, uint64_t value)
{
	msgpack_text(out, key);
	msgpack_uint64(out, value);
}

static void write_configs(struct packer *packer, uint32_t kernel)
{
	const struct profile *profile = packer->plan.profile;
	struct out *out = packer->out;

	msgpack_text(out, "configs");
	msgpack_array(out, tree_plan_configs(&packer->plan, kernel));
	for (uint32_t l = profile->kernels[kernel].first_config; l; l = profile->configs[l].next) {
		const struct profile_config *launch = &profile->configs[l];
		const struct launch_config *config = &launch->config;
		bool is_other = launch->flags & CONFIG_OTHER;

		msgpack_map(out, is_other ? 2 : 7);
		if (!is_other)
			write_dimensions(out, "block", config->block);
		write_number(out, "count", launch->count);
		if (!is_other) {
			write_number(out, "dynamic_shared (bytes)", config->dynamic_shared_bytes);
			write_dimensions(out, "grid", config->grid);
			write_number(out, "registers", config->registers_per_thread);
			write_number(out, "static_shared (bytes)", config->static_shared_bytes);
		}
		write_number(out, "time (ns)", launch->total_ns);
	}
}

static void write_kernel_extras(struct packer *packer, uint32_t kernel)
{
	const struct profile *profile = packer->plan.profile;
	const struct profile_kernel *row = &profile->kernels[kernel];
	struct out *out = packer->out;

	msgpack_text(out, "proton");
	msgpack_map(out, tree_plan_kernel_extras(&packer->plan, kernel));
	if (row->histogram && tree_plan_has_range(&packer->plan, kernel))
		write_histogram(out, &profile->histograms[row->histogram]);
	if (row->first_config)
		write_configs(packer, kernel);
	if (tree_plan_has_range(&packer->plan, kernel)) {
		write_number(out, "max (ns)", row->max_ns);
		write_number(out, "min (ns)", row->min_ns);
	}
}

static void write_counters(struct packer *packer, bool is_loss)
{
	const struct profile *profile = packer->plan.profile;
	uint32_t count = tree_plan_counters(&packer->plan, is_loss);

	if (!count)
		return;
	msgpack_text(packer->out, is_loss ? "losses" : "counters");
	msgpack_map(packer->out, count);
	for (size_t i = 0; i < profile->counter_count; i++) {
		if (!tree_plan_shows_counter(&profile->counters[i], is_loss))
			continue;
		msgpack_text(packer->out, profile_text(profile, profile->counters[i].name));
		msgpack_uint64(packer->out, profile->counters[i].value);
	}
}

static void write_root_extras(struct packer *packer)
{
	const struct profile *profile = packer->plan.profile;
	struct out *out = packer->out;

	msgpack_text(out, "proton");
	msgpack_map(out, tree_plan_root_extras(&packer->plan));
	write_counters(packer, false);
	if (profile->is_damaged) {
		msgpack_text(out, "damaged");
		msgpack_bool(out, true);
	}
	if (profile->end_ns) {
		msgpack_text(out, "end_time (ns)");
		msgpack_uint64(out, profile->end_ns);
	}
	if (profile->info_count) {
		msgpack_text(out, "info");
		msgpack_map(out, profile->info_count);
		for (size_t i = 0; i < profile->info_count; i++) {
			uint32_t value = profile->info[i].value;

			msgpack_text(out, profile_text(profile, profile->info[i].key));
			msgpack_string(out, profile_text(profile, value),
				       string_length(&profile->strings, value));
		}
	}
	write_counters(packer, true);
	if (tree_plan_has_root_rest(&packer->plan)) {
		if (!tree_plan_root_rest(&packer->plan))
			packer->is_out_of_memory = true;
		msgpack_text(out, "metrics");
		msgpack_map(out, packer->plan.entry_count);
		for (size_t i = 0; i < packer->plan.entry_count; i++)
			write_entry(packer, &packer->plan.entries[i]);
	}
	if (profile->start_ns) {
		msgpack_text(out, "start_time (ns)");
		msgpack_uint64(out, profile->start_ns);
	}
	if (profile->is_unfinished) {
		msgpack_text(out, "unfinished");
		msgpack_bool(out, true);
	}
}

/* How many nodes the children of `node` become: one per device of each, at least one. */
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

/* A node up to the begin of its list of children. */
static void write_node(struct packer *packer, uint32_t node, uint32_t kernel, uint64_t children)
{
	struct tree_plan *plan = &packer->plan;
	struct out *out = packer->out;
	bool has_root_extras = node == 0 && tree_plan_root_extras(plan);
	bool has_kernel_extras = node != 0 && tree_plan_kernel_extras(plan, kernel);
	size_t length;
	const char *name = plan_text(&packer->frames, plan->profile->nodes[node].frame, &length);

	msgpack_map(out, has_root_extras || has_kernel_extras ? 4 : 3);
	msgpack_text(out, "frame");
	msgpack_map(out, 2);
	msgpack_text(out, "name");
	out_bytes(out, name, length);
	msgpack_text(out, "type");
	msgpack_text(out, "function");
	if (!tree_plan_entries(plan, node, kernel))
		packer->is_out_of_memory = true;
	msgpack_text(out, "metrics");
	msgpack_map(out, plan->entry_count);
	for (size_t i = 0; i < plan->entry_count; i++)
		write_entry(packer, &plan->entries[i]);
	if (has_root_extras)
		write_root_extras(packer);
	if (has_kernel_extras)
		write_kernel_extras(packer, kernel);
	msgpack_text(out, "children");
	msgpack_array(out, children);
}

static void enter_node(struct packer *packer, uint32_t node)
{
	const struct profile *profile = packer->plan.profile;

	write_node(packer, node, profile->nodes[node].first_kernel, count_children(profile, node));
}

/* Writes the siblings that stand for the kernels of `node` on further devices. */
static void leave_node(struct packer *packer, uint32_t node)
{
	const struct profile *profile = packer->plan.profile;
	uint32_t kernel = profile->nodes[node].first_kernel;

	if (!kernel || node == 0)
		return;
	while ((kernel = profile->kernels[kernel].next))
		write_node(packer, node, kernel, 0);
}

static void write_tree(struct packer *packer)
{
	const struct profile_node *nodes = packer->plan.profile->nodes;
	uint32_t node = 0;

	enter_node(packer, node);
	for (;;) {
		if (nodes[node].first_child) {
			node = nodes[node].first_child;
			enter_node(packer, node);
			continue;
		}
		for (;;) {
			leave_node(packer, node);
			if (node == 0)
				return;
			if (nodes[node].next_sibling)
				break;
			node = nodes[node].parent;
		}
		node = nodes[node].next_sibling;
		enter_node(packer, node);
	}
}

/* Devices of the same type as the one at `first`; the table is sorted by type. */
static size_t count_same_type(const struct tree_plan *plan, size_t first)
{
	size_t end = first;

	while (end < plan->device_count &&
	       strcmp(plan->devices[end].type, plan->devices[first].type) == 0)
		end++;
	return end - first;
}

static void write_device(struct packer *packer, const struct plan_device *row)
{
	const struct profile *profile = packer->plan.profile;
	const struct profile_device *device = &profile->devices[row->device];
	struct out *out = packer->out;

	msgpack_text(out, row->id);
	msgpack_map(out, 5);
	msgpack_text(out, "arch");
	msgpack_string(out, profile_text(profile, device->arch),
		       string_length(&profile->strings, device->arch));
	msgpack_text(out, "bus_width");
	msgpack_uint64(out, device->bus_width_bits);
	msgpack_text(out, "clock_rate");
	msgpack_uint64(out, device->clock_khz);
	msgpack_text(out, "memory_clock_rate");
	msgpack_uint64(out, device->memory_clock_khz);
	msgpack_text(out, "num_sms");
	msgpack_uint64(out, device->processors);
}

static void write_devices(struct packer *packer)
{
	const struct tree_plan *plan = &packer->plan;
	uint64_t types = 0;

	for (size_t i = 0; i < plan->device_count; i += count_same_type(plan, i))
		types++;
	msgpack_map(packer->out, types);
	for (size_t i = 0; i < plan->device_count;) {
		size_t end = i + count_same_type(plan, i);

		msgpack_text(packer->out, plan->devices[i].type);
		msgpack_map(packer->out, end - i);
		for (; i < end; i++)
			write_device(packer, &plan->devices[i]);
	}
}

int export_msgpack(const struct profile *profile, struct out *out, struct proton_error *err)
{
	struct packer packer = {.out = out};
	int status = tree_plan_init(&packer.plan, profile, err);

	if (status != PROTON_OK)
		return status;
	status = plan_texts_of_frames(&packer.frames, &packer.plan, msgpack_string, err);
	if (status == PROTON_OK)
		status = plan_texts_of_keys(&packer.keys, &packer.plan, msgpack_string, err);
	if (status == PROTON_OK) {
		msgpack_array(out, 2);
		write_tree(&packer);
		write_devices(&packer);
		if (packer.is_out_of_memory)
			status = err_set(err, PROTON_E_NOMEM, "out of memory");
	}
	plan_texts_fini(&packer.frames);
	plan_texts_fini(&packer.keys);
	tree_plan_fini(&packer.plan);
	return status;
}
