/* Merging of profiles, node by node. */
#include "model/merge.h"

#include "base/array.h"
#include "model/clamped.h"

#define NONE UINT32_MAX
#define LONG_STRING 256u /* bytes: many frames may share one, so it is searched once */

struct merge {
	struct profile *target;
	const struct profile *source;
	/* The source's, for merge_tree(); its nodes then are the last source's. */
	struct merge_maps maps;
	size_t node_count, node_capacity, place_capacity;
	uint32_t *frames;      /* by frame of the source: frame of the target, or NONE */
	uint32_t *last_frames; /* the same map for the last source */
	size_t frame_count, last_frame_count;
	uint32_t *devices;
	bool *is_kernel_frame; /* by frame of the target */
	size_t is_kernel_capacity;
	struct hash_table children; /* (parent, frame) -> node */
	struct hash_table values;   /* (node, metric) -> value */
	struct hash_table kernels;  /* (node, device) -> kernel */
	struct hash_table counters; /* name -> index + 1 */
	struct hash_table strings;  /* long string of the source -> string of the target */
	uint32_t *newest;           /* by metric of the target: its newest value; 0: none */
	uint32_t *older;            /* by value: the previous value of its metric */
	size_t newest_capacity, older_capacity;
	bool has_about;
	size_t limit; /* of nodes; 0: none */
};

/* Records an existing entry of the target. */
static void index_entry(struct merge *merge, struct hash_table *table, uint64_t hash,
			uint32_t value)
{
	if (value && !hash_table_add(table, hash, value))
		merge->target->out_of_memory = true;
}

/* ------------------------------------------------------------------ new and free */

struct merge *merge_new(struct profile *target)
{
	struct merge *merge = calloc(1, sizeof(*merge));

	if (merge)
		merge->target = target;
	return merge;
}

static void drop_maps(struct merge *merge)
{
	free(merge->last_frames);
	merge->last_frames = merge->frames;
	merge->last_frame_count = merge->frames ? merge->frame_count : 0;
	free(merge->maps.metrics);
	free(merge->devices);
	merge->frames = merge->maps.metrics = merge->devices = NULL;
	hash_table_fini(&merge->strings);
}

/* Frames were compared without kinds: a kernel frame here may be a plain name there. */
static void restore_kinds(struct merge *merge)
{
	struct profile *target = merge->target;

	for (size_t i = 1; i < target->frame_count && i < merge->is_kernel_capacity; i++) {
		if (merge->is_kernel_frame[i])
			target->frames[i].kind = FRAME_KERNEL;
	}
	hash_table_fini(&target->frame_index); /* rebuilt by the next search */
	target->frames_indexed = 0;
}

void merge_free(struct merge *merge)
{
	if (!merge)
		return;
	restore_kinds(merge);
	drop_maps(merge);
	FREE_ALL(merge->last_frames, merge->maps.nodes, merge->maps.values, merge->is_kernel_frame);
	hash_table_fini(&merge->children);
	hash_table_fini(&merge->values);
	hash_table_fini(&merge->kernels);
	hash_table_fini(&merge->counters);
	FREE_ALL(merge->newest, merge->older, merge);
}

static uint32_t *new_map(struct merge *merge, size_t count)
{
	uint32_t *map = malloc((count + 1) * sizeof(*map));

	if (!map)
		merge->target->out_of_memory = true;
	else
		memset(map, 0xff, (count + 1) * sizeof(*map));
	return map;
}

void merge_limit(struct merge *merge, size_t nodes)
{
	merge->limit = nodes;
}

void merge_source(struct merge *merge, const struct profile *source)
{
	drop_maps(merge);
	merge->source = source;
	merge->frames = new_map(merge, source->frame_count);
	merge->frame_count = source->frame_count;
	merge->maps.metrics = new_map(merge, source->metric_count);
	merge->devices = new_map(merge, source->device_count);
}

/* ------------------------------------------------------------------ frames and nodes */

static uint32_t copy_string(struct merge *merge, uint32_t string)
{
	const struct strings *strings = &merge->source->strings;
	bool is_long = string_length(strings, string) >= LONG_STRING;
	uint32_t found = is_long ? hash_table_find(&merge->strings, hash_u64(string)) : 0;

	if (found)
		return found;
	found = profile_string(merge->target, string_text(strings, string),
			       string_length(strings, string));
	if (is_long)
		index_entry(merge, &merge->strings, hash_u64(string), found);
	return found;
}

static bool is_same_text(const struct merge *merge, uint32_t source, uint32_t target)
{
	const struct strings *from = &merge->source->strings;
	const struct strings *to = &merge->target->strings;
	size_t length = string_length(from, source);

	return string_length(to, target) == length &&
	       memcmp(string_text(from, source), string_text(to, target), length) == 0;
}

/* The frame of the target for the same row of the last source if it is equal, else NONE. */
static uint32_t last_frame(const struct merge *merge, uint32_t source_frame)
{
	const struct row_frame *row = &merge->source->frames[source_frame];

	if (source_frame >= merge->last_frame_count)
		return NONE;
	uint32_t id = merge->last_frames[source_frame];
	if (id == NONE)
		return NONE;
	const struct row_frame *last = &merge->target->frames[id];
	if ((row->kind == FRAME_SOURCE) != (last->kind == FRAME_SOURCE) ||
	    !is_same_text(merge, row->name, last->name))
		return NONE;
	if (row->kind == FRAME_SOURCE &&
	    (row->line != last->line || !is_same_text(merge, row->file, last->file)))
		return NONE;
	return id;
}

static uint32_t find_frame(struct merge *merge, uint32_t source_frame)
{
	const struct row_frame *row = &merge->source->frames[source_frame];
	struct row_frame frame = {.kind = FRAME_NAME};

	frame.name = copy_string(merge, row->name);
	if (row->kind == FRAME_SOURCE) {
		frame.kind = FRAME_SOURCE;
		frame.file = copy_string(merge, row->file);
		frame.line = row->line;
	}
	return profile_frame(merge->target, frame);
}

static uint32_t map_frame(struct merge *merge, uint32_t source_frame)
{
	const struct row_frame *row = &merge->source->frames[source_frame];

	if (!merge->frames)
		return 0;
	if (merge->frames[source_frame] != NONE)
		return merge->frames[source_frame];
	uint32_t id = last_frame(merge, source_frame);
	if (id == NONE)
		id = find_frame(merge, source_frame);
	if (row->kind == FRAME_KERNEL &&
	    array_reserve_zeros(&merge->is_kernel_frame, &merge->is_kernel_capacity, (size_t)id + 1,
				sizeof(*merge->is_kernel_frame)))
		merge->is_kernel_frame[id] = true;
	else
		merge->target->out_of_memory |= row->kind == FRAME_KERNEL;
	merge->frames[source_frame] = id;
	return id;
}

/* The node for all nodes beyond the limit. */
static uint32_t other_node(struct merge *merge)
{
	if (merge->maps.other)
		return merge->maps.other;
	uint32_t id = profile_name_frame(merge->target, MERGE_OTHER);
	merge->maps.other = hash_table_find(&merge->children, hash_pair(0, id));
	if (!merge->maps.other) {
		merge->maps.other = profile_node(merge->target, 0, id);
		index_entry(merge, &merge->children, hash_pair(0, id), merge->maps.other);
	}
	return merge->maps.other;
}

static uint32_t child_of(struct merge *merge, uint32_t parent, uint32_t frame)
{
	uint32_t node = hash_table_find(&merge->children, hash_pair(parent, frame));

	if (node || merge->target->out_of_memory)
		return node;
	if (merge->limit && merge->target->node_count >= merge->limit)
		return other_node(merge);
	node = profile_node(merge->target, parent, frame);
	index_entry(merge, &merge->children, hash_pair(parent, frame), node);
	return node;
}

uint32_t merge_child(struct merge *merge, uint32_t parent, uint32_t source_frame)
{
	return child_of(merge, parent, map_frame(merge, source_frame));
}

uint32_t merge_child_named(struct merge *merge, uint32_t parent, const char *name)
{
	return child_of(merge, parent, profile_name_frame(merge->target, name));
}

/* ------------------------------------------------------------------ values */

static void note_value(struct merge *merge, uint32_t metric, uint32_t value)
{
	if (!array_reserve_zeros(&merge->newest, &merge->newest_capacity, (size_t)metric + 1,
				 sizeof(*merge->newest)) ||
	    !array_reserve(&merge->older, &merge->older_capacity, (size_t)value + 1,
			   sizeof(*merge->older))) {
		merge->target->out_of_memory = true;
		return;
	}
	merge->older[value] = merge->newest[metric];
	merge->newest[metric] = value;
}

/* Converts an integer metric of the target that is a double in another source. */
static void make_double(struct merge *merge, uint32_t metric)
{
	struct profile *target = merge->target;
	uint32_t v = metric < merge->newest_capacity ? merge->newest[metric] : 0;

	for (; v; v = merge->older[v])
		target->values[v].as.float64 = (double)target->values[v].as.int64;
	target->metrics[metric].type = PROTON_METRIC_DOUBLE;
}

static uint32_t map_metric(struct merge *merge, uint32_t source_metric)
{
	const struct row_metric *row = &merge->source->metrics[source_metric];
	struct profile *target = merge->target;
	const struct row_metric *found = NULL;
	uint32_t id;

	if (!merge->maps.metrics)
		return NONE;
	if (merge->maps.metrics[source_metric] != NONE)
		return merge->maps.metrics[source_metric];
	uint32_t name = copy_string(merge, row->name);
	if (row->type == PROTON_METRIC_INT64)
		found = profile_metric_find(target, name, PROTON_METRIC_DOUBLE);
	else if (row->type == PROTON_METRIC_DOUBLE)
		found = profile_metric_find(target, name, PROTON_METRIC_INT64);
	if (found) {
		id = (uint32_t)(found - target->metrics);
		if (found->type == PROTON_METRIC_INT64)
			make_double(merge, id);
		/* A metric that is inclusive in one file is inclusive in the target. */
		target->metrics[id].flags &= row->flags;
	} else {
		size_t count = target->metric_count;

		id = profile_metric(target, name, row->type, row->flags);
		if (target->out_of_memory)
			return NONE;
		if (target->metric_count == count && profile_is_number(row->type))
			target->metrics[id].flags &= row->flags;
	}
	merge->maps.metrics[source_metric] = id;
	return id;
}

/* Adds a source's value to the target's value `index`, or stores it if `is_new`. */
static void put_value(struct merge *merge, uint32_t index, struct profile_value from, bool is_new)
{
	const struct profile *source = merge->source;
	uint16_t type = source->metrics[from.metric].type;
	const uint64_t *vector = NULL;

	if (type == PROTON_METRIC_STRING)
		from.as.string = copy_string(merge, from.as.string);
	else if (!profile_is_number(type))
		vector = source->words + from.as.vector;
	else if (type != merge->target->metrics[merge->target->values[index].metric].type)
		from.as.float64 = (double)from.as.int64;
	profile_value_add(merge->target, index, &from, vector, is_new, true);
}

void merge_values(struct merge *merge, uint32_t source_node, uint32_t target_node)
{
	const struct profile *source = merge->source;
	struct profile *target = merge->target;

	/* Values mostly are in the same order: then nothing is searched. */
	uint32_t guess = target->nodes[target_node].first_value;

	for (uint32_t v = source->nodes[source_node].first_value; v; v = source->values[v].next) {
		uint32_t metric = map_metric(merge, source->values[v].metric);
		uint32_t index = guess;

		if (target->out_of_memory)
			return;
		if (!guess || target->values[guess].metric != metric)
			index = hash_table_find(&merge->values, hash_pair(target_node, metric));
		bool is_new = index == 0;
		if (is_new) {
			index = (uint32_t)(profile_value(target, target_node, metric) -
					   target->values);
			if (target->out_of_memory)
				return;
			index_entry(merge, &merge->values, hash_pair(target_node, metric), index);
			note_value(merge, metric, index);
			if (target->out_of_memory)
				return;
		}
		guess = target->values[index].next;
		if (v < merge->place_capacity)
			merge->maps.values[v] = index;
		put_value(merge, index, source->values[v], is_new);
	}
}

/* ------------------------------------------------------------------ kernels */

static uint32_t map_device(struct merge *merge, uint32_t source_device)
{
	if (!merge->devices)
		return 0;
	if (merge->devices[source_device] != NONE)
		return merge->devices[source_device];
	struct row_device device = merge->source->devices[source_device];
	device.type = copy_string(merge, device.type);
	device.arch = copy_string(merge, device.arch);
	device.name = copy_string(merge, device.name);
	/* Device 0 of another machine is another device, unless it has the same properties. */
	merge->devices[source_device] = profile_device_like(merge->target, device);
	return merge->devices[source_device];
}

void merge_kernel(struct merge *merge, uint32_t source_kernel, uint32_t target_node)
{
	const struct profile *source = merge->source;
	const struct profile_kernel *from = &source->kernels[source_kernel];
	struct profile *target = merge->target;
	uint32_t device = map_device(merge, from->device);
	uint32_t index = target->nodes[target_node].first_kernel;

	if (target->out_of_memory)
		return;
	if (!index || target->kernels[index].device != device)
		index = hash_table_find(&merge->kernels, hash_pair(target_node, device));
	if (!index) {
		index = (uint32_t)(profile_kernel(target, target_node, device) - target->kernels);
		if (target->out_of_memory)
			return;
		index_entry(merge, &merge->kernels, hash_pair(target_node, device), index);
	}
	profile_kernel_add(target, index, from,
			   from->histogram ? source->histograms[from->histogram].bucket : NULL);
	for (uint32_t c = from->first_config; c; c = merge->source->configs[c].next) {
		uint32_t first = target->kernels[index].first_config;

		target->kernels[index].first_config =
			profile_config(target, first, &merge->source->configs[c]);
	}
}

void merge_kernels(struct merge *merge, uint32_t source_node, uint32_t target_node)
{
	const struct profile *source = merge->source;

	for (uint32_t k = source->nodes[source_node].first_kernel; k; k = source->kernels[k].next)
		merge_kernel(merge, k, target_node);
}

/* ------------------------------------------------------------------ whole profiles */

/* The target's string that equals `string` of the source up to a NUL, or STRING_NONE. */
static uint32_t find_text(const struct merge *merge, uint32_t string)
{
	const char *text = profile_text(merge->source, string);

	return strings_find(&merge->target->strings, text, strlen(text));
}

/* Takes the info of the first source; then keeps what is the same in all, and drops the rest. */
static void merge_info(struct merge *merge)
{
	const struct profile *source = merge->source;
	struct profile *target = merge->target;
	AT_END(hash_table_fini) struct hash_table pairs = {0};
	size_t kept = 0;

	for (size_t i = 0; i < source->info_count && !merge->has_about; i++)
		profile_info(target, profile_text(source, source->info[i].key),
			     profile_text(source, source->info[i].value));
	if (!merge->has_about)
		return;
	for (size_t i = 0; i < source->info_count && target->info_count; i++) {
		uint32_t key = find_text(merge, source->info[i].key);
		uint32_t value = find_text(merge, source->info[i].value);

		if (key != STRING_NONE && value != STRING_NONE &&
		    !hash_table_find(&pairs, hash_pair(key, value)) &&
		    !hash_table_add(&pairs, hash_pair(key, value), 1))
			target->out_of_memory = true;
	}
	for (size_t i = 0; i < target->info_count; i++)
		if (hash_table_find(&pairs, hash_pair(target->info[i].key, target->info[i].value)))
			target->info[kept++] = target->info[i];
	target->info_count = kept;
}

static void merge_counters(struct merge *merge)
{
	const struct profile *source = merge->source;
	struct profile *target = merge->target;

	ARRAY_EACH(from, source->counters, source->counter_count) {
		uint32_t name = find_text(merge, from->name);
		uint32_t found =
			name == STRING_NONE ? 0 : hash_table_find(&merge->counters, hash_u64(name));

		if (found) {
			struct row_counter *counter = &target->counters[found - 1];

			counter->value = clamped_u64(counter->value, from->value);
			continue;
		}
		size_t count = target->counter_count;
		profile_counter(target, profile_text(source, from->name), from->is_loss,
				from->value);
		if (target->counter_count > count)
			index_entry(merge, &merge->counters, hash_u64(target->counters[count].name),
				    (uint32_t)target->counter_count);
	}
}

void merge_about(struct merge *merge)
{
	const struct profile *source = merge->source;
	struct profile *target = merge->target;

	if (source->start_ns && (!target->start_ns || source->start_ns < target->start_ns))
		target->start_ns = source->start_ns;
	if (source->end_ns > target->end_ns)
		target->end_ns = source->end_ns;
	target->file_bytes += source->file_bytes;
	target->is_unfinished = target->is_unfinished || source->is_unfinished;
	target->is_damaged = target->is_damaged || source->is_damaged;
	merge_info(merge);
	merge_counters(merge);
	merge->has_about = true;
}

/*
 * The first source is mostly like the others: its sizes are reserved, because arrays and tables
 * that grow step by step leave holes in the heap.
 */
static bool reserve_like(struct merge *merge)
{
	const struct profile *source = merge->source;
	struct profile *target = merge->target;
	size_t nodes = source->node_count;

	if (merge->children.slot_count)
		return true;
	if (merge->limit && nodes > merge->limit)
		nodes = merge->limit;
	return hash_table_reserve(&merge->children, nodes) &&
	       hash_table_reserve(&merge->values, source->value_count) &&
	       hash_table_reserve(&merge->kernels, source->kernel_count) &&
	       hash_table_reserve(&target->strings.index, source->strings.index.count) &&
	       hash_table_reserve(&target->frame_index, source->frame_count) &&
	       array_reserve(&target->frames, &target->frame_capacity, source->frame_count,
			     sizeof(*target->frames)) &&
	       array_reserve(&target->nodes, &target->node_capacity, nodes,
			     sizeof(*target->nodes)) &&
	       array_reserve(&target->values, &target->value_capacity, source->value_count,
			     sizeof(*target->values)) &&
	       array_reserve(&target->kernels, &target->kernel_capacity, source->kernel_count,
			     sizeof(*target->kernels));
}

/* Makes room for the maps of nodes and values. The nodes of the last source stay. */
static bool reserve_maps(struct merge *merge)
{
	const struct profile *source = merge->source;

	if (reserve_like(merge) &&
	    array_reserve(&merge->maps.nodes, &merge->node_capacity, source->node_count,
			  sizeof(*merge->maps.nodes)) &&
	    array_reserve(&merge->maps.values, &merge->place_capacity, source->value_count,
			  sizeof(*merge->maps.values)))
		return true;
	merge->target->out_of_memory = true;
	return false;
}

/*
 * The node of the target for node `i` of the source. Sources mostly have equal trees: then it is
 * the last source's.
 */
static uint32_t node_for(struct merge *merge, uint32_t i)
{
	const struct profile_node *node = &merge->source->nodes[i];
	uint32_t parent = merge->maps.nodes[node->parent];
	uint32_t frame = map_frame(merge, node->frame);

	if (i < merge->node_count) {
		uint32_t last = merge->maps.nodes[i];
		const struct profile_node *guess = &merge->target->nodes[last];

		if (last && guess->parent == parent && guess->frame == frame)
			return last;
	}
	return child_of(merge, parent, frame);
}

const struct merge_maps *merge_tree(struct merge *merge, const struct profile *source)
{
	merge_source(merge, source);
	if (!reserve_maps(merge))
		return NULL;
	/* Keep metrics that no node has. */
	for (uint32_t i = 0; i < source->metric_count; i++)
		map_metric(merge, i);
	for (uint32_t i = 0; i < source->device_count; i++)
		map_device(merge, i);
	for (uint32_t i = 0; i < source->node_count && !merge->target->out_of_memory; i++) {
		merge->maps.nodes[i] = i ? node_for(merge, i) : 0;
		merge_values(merge, i, merge->maps.nodes[i]);
		merge_kernels(merge, i, merge->maps.nodes[i]);
	}
	merge->node_count = source->node_count;
	merge_about(merge);
	return merge->target->out_of_memory ? NULL : &merge->maps;
}
