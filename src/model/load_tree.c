/*
 * A profile from hatchet's nested lists. See load_tree.h.
 *
 * The tree is walked with a stack of open nodes; what is nested inside one node (its frame, its
 * metrics) has a fixed depth and is read by plain functions. Three things are known only when it
 * is too late: a node's name stands behind its children, so frames are set when a node closes; the
 * inclusive names stand on ROOT, which closes last; and a number that is written "0" in one place
 * and "0.5" in another makes its metric a double one. settle.c sees to the latter two.
 */
#include "model/load_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/settle.h"

struct open_node {
	uint32_t node;
	struct profile_frame frame;
	bool has_frame;
	bool has_children;
	bool is_in_children;
	bool has_extremes;
	uint32_t histogram;
	uint32_t first_config;
	uint64_t min_ns;
	uint64_t max_ns;
};

/* Where a metric was last stored, so that a name given twice in a node counts once, as in JSON. */
struct last_use {
	uint32_t node_plus_1;
	uint32_t value;
};

struct tree_loader {
	const struct token_source *source;
	struct profile *profile;
	struct open_node *stack;
	size_t depth, stack_capacity;
	struct last_use *last_uses; /* by metric */
	size_t last_use_count, last_use_capacity;
	struct root_metrics root;
	bool is_root_rest;  /* reading what stands beside ROOT's metrics, not among them */
	uint64_t *elements; /* of the vector being read */
	size_t element_capacity;
	uint32_t time, count, device_id, device_type; /* strings */
};

static bool has_failed(enum token_kind kind)
{
	return kind == TOKEN_END || kind == TOKEN_ERROR;
}

static bool is_text(const struct token *token, const char *text)
{
	size_t length = strlen(text);

	return token->length == length && memcmp(token->text, text, length) == 0;
}

static uint32_t intern(struct tree_loader *loader, const struct token *token)
{
	return profile_string(loader->profile, token->text, token->length);
}

/* A non-negative integer however it is written. */
static bool token_to_u64(const struct token *token, uint64_t *value)
{
	switch (token->kind) {
	case TOKEN_INT64:
		if (token->as.int64 < 0)
			return false;
		*value = (uint64_t)token->as.int64;
		return true;
	case TOKEN_UINT64:
		*value = token->as.uint64;
		return true;
	case TOKEN_DOUBLE:
		if (!(token->as.float64 >= 0 && token->as.float64 < 9e18) ||
		    token->as.float64 != (double)(uint64_t)token->as.float64)
			return false;
		*value = (uint64_t)token->as.float64;
		return true;
	default:
		return false;
	}
}

/* ------------------------------------------------------------------ frames */

/* The digits before `end`, as a line number written the usual way; NULL if there are none. */
static const char *line_before(const char *begin, const char *end, uint32_t *line)
{
	const char *at = end;
	uint64_t value = 0;

	while (at > begin && at[-1] >= '0' && at[-1] <= '9')
		at--;
	if (at == end || end - at > 10 || (*at == '0' && end - at > 1))
		return NULL;
	for (const char *digit = at; digit < end; digit++)
		value = value * 10 + (uint64_t)(*digit - '0');
	if (value > UINT32_MAX)
		return NULL;
	*line = (uint32_t)value;
	return at;
}

/* Takes "file:line@function" apart, at the last place where it can be. */
static bool split_source(struct tree_loader *loader, const char *text, size_t length,
			 struct profile_frame *frame)
{
	const char *end = text + length;
	const char *at = end;

	while ((at = memrchr(text, '@', (size_t)(at - text)))) {
		const char *digits = line_before(text, at, &frame->line);

		if (!digits || digits - text < 2 || digits[-1] != ':' || at + 1 == end)
			continue;
		frame->kind = FRAME_SOURCE;
		frame->file = profile_string(loader->profile, text, (size_t)(digits - 1 - text));
		frame->name = profile_string(loader->profile, at + 1, (size_t)(end - at - 1));
		return true;
	}
	return false;
}

static bool read_frame(struct tree_loader *loader, struct open_node *open)
{
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		bool is_name = is_text(&token, "name");

		kind = token_next(loader->source, &token);
		if (is_name && kind == TOKEN_STRING) {
			open->has_frame = true;
			open->frame = (struct profile_frame){.kind = FRAME_NAME};
			if (!split_source(loader, token.text, token.length, &open->frame)) {
				open->frame = (struct profile_frame){.kind = FRAME_NAME};
				open->frame.name = intern(loader, &token);
			}
		} else if (!token_skip(loader->source, kind)) {
			return false;
		}
	}
	return !has_failed(kind);
}

/* ------------------------------------------------------------------ metrics */

/* The value for `name` on `node`: a new one, or the one that is there if the name came before. */
static struct profile_value *value_for(struct tree_loader *loader, uint32_t node, uint32_t name,
				       enum proton_metric_type type)
{
	struct profile *profile = loader->profile;
	uint32_t metric = profile_metric(profile, name, (uint16_t)type, 0);
	struct profile_value *value;

	if (metric >= loader->last_use_count) {
		if (!array_reserve(&loader->last_uses, &loader->last_use_capacity, metric + 1,
				   sizeof(*loader->last_uses))) {
			profile->out_of_memory = true;
			return &profile->values[0];
		}
		memset(loader->last_uses + loader->last_use_count, 0,
		       (metric + 1 - loader->last_use_count) * sizeof(*loader->last_uses));
		loader->last_use_count = metric + 1;
	}
	if (loader->last_uses[metric].node_plus_1 == node + 1)
		return &profile->values[loader->last_uses[metric].value];
	value = profile_value(profile, node, metric);
	loader->last_uses[metric].node_plus_1 = node + 1;
	loader->last_uses[metric].value = (uint32_t)(value - profile->values);
	return value;
}

static void note_root_name(struct tree_loader *loader, uint32_t name, enum proton_metric_type type)
{
	struct root_metrics *root = &loader->root;

	if (!array_reserve(&root->names, &root->capacity, root->count + 1, sizeof(*root->names))) {
		loader->profile->out_of_memory = true;
		return;
	}
	root->names[root->count++] = (struct root_name){.name = name, .type = (uint16_t)type};
}

static void store_int64(struct tree_loader *loader, uint32_t node, uint32_t name, int64_t value)
{
	if (node == 0 && !loader->is_root_rest) {
		note_root_name(loader, name, PROTON_METRIC_INT64);
		if (value == 0)
			return;
	}
	value_for(loader, node, name, PROTON_METRIC_INT64)->as.int64 = value;
}

static void store_double(struct tree_loader *loader, uint32_t node, uint32_t name, double value)
{
	if (node == 0 && !loader->is_root_rest) {
		note_root_name(loader, name, PROTON_METRIC_DOUBLE);
		if (value == 0)
			return;
	}
	value_for(loader, node, name, PROTON_METRIC_DOUBLE)->as.float64 = value;
}

/* A number, string or word; what cannot be a metric is left out. */
static void store_scalar(struct tree_loader *loader, uint32_t node, uint32_t name,
			 const struct token *token)
{
	switch (token->kind) {
	case TOKEN_INT64:
		store_int64(loader, node, name, token->as.int64);
		break;
	case TOKEN_BOOL:
		store_int64(loader, node, name, token->as.boolean);
		break;
	case TOKEN_UINT64:
		store_double(loader, node, name, (double)token->as.uint64);
		break;
	case TOKEN_DOUBLE:
		store_double(loader, node, name, token->as.float64);
		break;
	case TOKEN_STRING: {
		uint32_t text = intern(loader, token);

		value_for(loader, node, name, PROTON_METRIC_STRING)->as.string = text;
		break;
	}
	default:
		break;
	}
}

static uint64_t double_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void int64s_to_doubles(uint64_t *elements, size_t count)
{
	for (size_t i = 0; i < count; i++)
		elements[i] = double_bits((double)(int64_t)elements[i]);
}

/* A list of numbers, behind its begin. A list of anything else is left out. */
static bool read_vector(struct tree_loader *loader, uint32_t node, uint32_t name)
{
	enum proton_metric_type type = PROTON_METRIC_INT64_VECTOR;
	bool is_usable = true;
	size_t count = 0;
	struct token token;
	enum token_kind kind;
	uint32_t words;

	while ((kind = token_next(loader->source, &token)) != TOKEN_ARRAY_END) {
		double number = 0;

		if (has_failed(kind))
			return false;
		if (kind != TOKEN_INT64 && kind != TOKEN_UINT64 && kind != TOKEN_DOUBLE) {
			is_usable = false;
			if (!token_skip(loader->source, kind))
				return false;
		}
		if (!is_usable)
			continue;
		if (!array_reserve(&loader->elements, &loader->element_capacity, count + 1,
				   sizeof(*loader->elements))) {
			loader->profile->out_of_memory = true;
			return true;
		}
		if (kind == TOKEN_INT64 && type == PROTON_METRIC_INT64_VECTOR) {
			loader->elements[count++] = (uint64_t)token.as.int64;
			continue;
		}
		if (type == PROTON_METRIC_INT64_VECTOR)
			int64s_to_doubles(loader->elements, count);
		type = PROTON_METRIC_DOUBLE_VECTOR;
		number = kind == TOKEN_INT64    ? (double)token.as.int64
			 : kind == TOKEN_UINT64 ? (double)token.as.uint64
						: token.as.float64;
		loader->elements[count++] = double_bits(number);
	}
	if (!is_usable)
		return true;
	words = profile_vector(loader->profile, loader->elements, count);
	value_for(loader, node, name, type)->as.vector = words;
	return true;
}

/* What the metrics of a node say about a kernel. */
struct kernel_metrics {
	struct token time, count; /* TOKEN_END: not there */
	uint32_t device_type;     /* strings */
	uint32_t device_id;
	bool has_type;
	bool has_id;
};

static bool text_to_device_id(const char *text, size_t length, uint32_t *id)
{
	uint32_t value;

	if (length == 0 || line_before(text, text + length, &value) != text)
		return false;
	*id = value;
	return true;
}

/* Makes a kernel of the metrics, or stores them as what they are. */
static void store_kernel(struct tree_loader *loader, struct open_node *open,
			 const struct kernel_metrics *metrics)
{
	struct profile *profile = loader->profile;
	uint32_t node = open->node;
	uint64_t total = 0;
	uint64_t count = 0;
	bool has_time = token_to_u64(&metrics->time, &total);
	bool has_count = token_to_u64(&metrics->count, &count);
	uint32_t id = 0;
	bool is_kernel =
		node != 0 && (has_time || has_count) && metrics->has_type && metrics->has_id &&
		text_to_device_id(profile_text(profile, metrics->device_id),
				  string_length(&profile->strings, metrics->device_id), &id);

	if (is_kernel && !profile->nodes[node].first_kernel) {
		uint32_t device = profile_device(profile, metrics->device_type, id);
		struct profile_kernel *kernel = profile_kernel(profile, node, device);

		kernel->total_ns = total;
		kernel->count = count;
		kernel->min_ns = count == 1 ? total : KERNEL_TIME_UNKNOWN;
		kernel->max_ns = kernel->min_ns;
	} else {
		has_time = has_count = false;
		if (metrics->has_id)
			value_for(loader, node, loader->device_id, PROTON_METRIC_STRING)
				->as.string = metrics->device_id;
		if (metrics->has_type)
			value_for(loader, node, loader->device_type, PROTON_METRIC_STRING)
				->as.string = metrics->device_type;
	}
	if (!has_time)
		store_scalar(loader, node, loader->time, &metrics->time);
	if (!has_count)
		store_scalar(loader, node, loader->count, &metrics->count);
}

/* Takes what may belong to a kernel; false if it is a metric like others. */
static bool take_kernel_metric(struct tree_loader *loader, struct kernel_metrics *metrics,
			       uint32_t name, const struct token *token)
{
	bool is_number = token->kind == TOKEN_INT64 || token->kind == TOKEN_UINT64 ||
			 token->kind == TOKEN_DOUBLE;

	if (name == loader->time && is_number) {
		metrics->time = *token;
	} else if (name == loader->count && is_number) {
		metrics->count = *token;
	} else if (name == loader->device_type && token->kind == TOKEN_STRING) {
		metrics->device_type = intern(loader, token);
		metrics->has_type = true;
	} else if (name == loader->device_id && token->kind == TOKEN_STRING) {
		metrics->device_id = intern(loader, token);
		metrics->has_id = true;
	} else if (name == loader->device_id && token->kind == TOKEN_INT64) {
		char text[24];
		int length = snprintf(text, sizeof(text), "%lld", (long long)token->as.int64);

		metrics->device_id = profile_string(loader->profile, text, (size_t)length);
		metrics->has_id = true;
	} else {
		return false;
	}
	return true;
}

static bool read_metrics(struct tree_loader *loader, struct open_node *open)
{
	struct kernel_metrics metrics = {.time.kind = TOKEN_END, .count.kind = TOKEN_END};
	struct token token;
	enum token_kind kind;
	bool is_whole = true;

	loader->root.is_known |= open->node == 0 && !loader->is_root_rest;
	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t name = intern(loader, &token);

		kind = token_next(loader->source, &token);
		if (take_kernel_metric(loader, &metrics, name, &token))
			continue;
		if (kind == TOKEN_ARRAY)
			is_whole = read_vector(loader, open->node, name);
		else if (kind == TOKEN_OBJECT)
			is_whole = token_skip(loader->source, kind);
		else
			store_scalar(loader, open->node, name, &token);
		if (!is_whole || has_failed(kind))
			break;
	}
	store_kernel(loader, open, &metrics);
	return is_whole && !has_failed(kind);
}

/* ------------------------------------------------------------------ what only our files have */

/* {"32768": 5, ...}: counts by the shortest duration of a bucket. */
static bool read_histogram(struct tree_loader *loader, struct open_node *open)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	if (!open->histogram)
		open->histogram = profile_histogram(profile);
	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint64_t start = 0;
		uint64_t count;

		for (size_t i = 0; i < token.length && start < UINT64_MAX / 16; i++)
			start = start * 10 + (uint64_t)(unsigned char)(token.text[i] - '0') % 10;
		kind = token_next(loader->source, &token);
		if (token_to_u64(&token, &count))
			profile->histograms[open->histogram].bucket[histogram_bucket(start)] =
				count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
		else if (!token_skip(loader->source, kind))
			return false;
	}
	return !has_failed(kind);
}

/* [x, y, z] */
static bool read_dimensions(struct tree_loader *loader, uint32_t dimensions[3])
{
	struct token token;
	enum token_kind kind;
	uint32_t at = 0;

	while ((kind = token_next(loader->source, &token)) != TOKEN_ARRAY_END) {
		uint64_t value;

		if (has_failed(kind))
			return false;
		if (!token_to_u64(&token, &value)) {
			if (!token_skip(loader->source, kind))
				return false;
			continue;
		}
		if (at < 3)
			dimensions[at++] = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
	}
	return true;
}

/* {"grid": [x, y, z], "block": [x, y, z], ...}; without a grid it stands for all others. */
static bool read_config(struct tree_loader *loader, struct open_node *open)
{
	struct profile_config launch = {.flags = CONFIG_OTHER};
	struct launch_config *config = &launch.config;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		bool is_grid = is_text(&token, "grid");
		bool is_block = is_text(&token, "block");
		bool is_count = is_text(&token, "count");
		bool is_time = is_text(&token, "time (ns)");
		uint32_t *number = is_text(&token, "registers") ? &config->registers_per_thread
				   : is_text(&token, "static_shared (bytes)")
					   ? &config->static_shared_bytes
				   : is_text(&token, "dynamic_shared (bytes)")
					   ? &config->dynamic_shared_bytes
					   : NULL;
		bool is_whole = true;
		uint64_t value;

		kind = token_next(loader->source, &token);
		if ((is_grid || is_block) && kind == TOKEN_ARRAY) {
			launch.flags &= ~(is_grid ? (uint32_t)CONFIG_OTHER : 0u);
			is_whole = read_dimensions(loader, is_grid ? config->grid : config->block);
		} else if (!token_to_u64(&token, &value)) {
			is_whole = token_skip(loader->source, kind);
		} else if (number) {
			*number = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
		} else if (is_count || is_time) {
			*(is_count ? &launch.count : &launch.total_ns) = value;
		}
		if (!is_whole)
			return false;
	}
	open->first_config = profile_config(loader->profile, open->first_config, &launch);
	return !has_failed(kind);
}

/* What a kernel was launched with: a list of objects. */
static bool read_configs(struct tree_loader *loader, struct open_node *open)
{
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) != TOKEN_ARRAY_END) {
		if (has_failed(kind))
			return false;
		if (kind == TOKEN_OBJECT ? !read_config(loader, open)
					 : !token_skip(loader->source, kind))
			return false;
	}
	return true;
}

/* {"name": text or number, ...} */
static bool read_info(struct tree_loader *loader)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t key = intern(loader, &token);

		kind = token_next(loader->source, &token);
		if (kind == TOKEN_STRING) {
			uint32_t value = intern(loader, &token);

			profile_info(profile, profile_text(profile, key),
				     profile_text(profile, value));
		} else if (!token_skip(loader->source, kind)) {
			return false;
		}
	}
	return !has_failed(kind);
}

/* {"name": count, ...} */
static bool read_counters(struct tree_loader *loader, bool is_loss)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t key = intern(loader, &token);
		uint64_t value;

		kind = token_next(loader->source, &token);
		if (token_to_u64(&token, &value))
			profile_counter(profile, profile_text(profile, key), is_loss, value);
		else if (!token_skip(loader->source, kind))
			return false;
	}
	return !has_failed(kind);
}

/* Metrics of ROOT that are not inclusive numbers. */
static bool read_root_rest(struct tree_loader *loader, struct open_node *open)
{
	bool is_whole;

	loader->is_root_rest = true;
	is_whole = read_metrics(loader, open);
	loader->is_root_rest = false;
	return is_whole;
}

/* The "proton" object of a node: what hatchet has no place for. */
static bool read_extras(struct tree_loader *loader, struct open_node *open)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		bool is_min = is_text(&token, "min (ns)");
		bool is_max = is_text(&token, "max (ns)");
		bool is_histogram = is_text(&token, "histogram (ns)");
		bool is_configs = is_text(&token, "configs");
		bool is_info = is_text(&token, "info");
		bool is_metrics = is_text(&token, "metrics");
		bool is_losses = is_text(&token, "losses");
		bool is_counters = is_losses || is_text(&token, "counters");
		bool is_start = is_text(&token, "start_time (ns)");
		bool is_end = is_text(&token, "end_time (ns)");
		bool is_unfinished = is_text(&token, "unfinished");
		bool is_damaged = is_text(&token, "damaged");
		bool is_whole = true;
		uint64_t value = 0;

		kind = token_next(loader->source, &token);
		if (is_histogram && kind == TOKEN_OBJECT)
			is_whole = read_histogram(loader, open);
		else if (is_configs && kind == TOKEN_ARRAY)
			is_whole = read_configs(loader, open);
		else if (is_metrics && kind == TOKEN_OBJECT && open->node == 0)
			is_whole = read_root_rest(loader, open);
		else if (is_info && kind == TOKEN_OBJECT && open->node == 0)
			is_whole = read_info(loader);
		else if (is_counters && kind == TOKEN_OBJECT && open->node == 0)
			is_whole = read_counters(loader, is_losses);
		else if (kind == TOKEN_BOOL && open->node == 0 && is_unfinished)
			profile->is_unfinished |= token.as.boolean;
		else if (kind == TOKEN_BOOL && open->node == 0 && is_damaged)
			profile->is_damaged |= token.as.boolean;
		else if (!token_to_u64(&token, &value))
			is_whole = token_skip(loader->source, kind);
		else if (is_min || is_max)
			*(is_min ? &open->min_ns : &open->max_ns) = value;
		else if (open->node == 0 && (is_start || is_end))
			*(is_start ? &profile->start_ns : &profile->end_ns) = value;
		if (!is_whole)
			return false;
	}
	return !has_failed(kind);
}

/* ------------------------------------------------------------------ devices */

/* The five properties of a device. */
static bool read_device(struct tree_loader *loader, uint32_t index)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		struct profile_device *device =
			index < profile->device_count ? &profile->devices[index] : NULL;
		bool is_arch = is_text(&token, "arch");
		uint64_t unused;
		uint64_t *number = !device                         ? &unused
				   : is_text(&token, "clock_rate") ? &device->clock_khz
				   : is_text(&token, "memory_clock_rate")
					   ? &device->memory_clock_khz
				   : is_text(&token, "bus_width") ? &device->bus_width_bits
				   : is_text(&token, "num_sms")   ? &device->processors
								  : &unused;

		kind = token_next(loader->source, &token);
		if (kind == TOKEN_STRING) {
			if (device && is_arch)
				device->arch = intern(loader, &token);
		} else if (!token_to_u64(&token, number) && !token_skip(loader->source, kind)) {
			return false;
		}
	}
	return !has_failed(kind);
}

/* {"0": {...}, "1": {...}} of one device type. */
static bool read_device_type(struct tree_loader *loader, uint32_t type)
{
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t id;
		bool is_id = text_to_device_id(token.text, token.length, &id);
		bool is_whole;

		kind = token_next(loader->source, &token);
		if (is_id && kind == TOKEN_OBJECT)
			is_whole = read_device(loader, profile_device(loader->profile, type, id));
		else
			is_whole = token_skip(loader->source, kind);
		if (!is_whole)
			return false;
	}
	return !has_failed(kind);
}

static bool read_devices(struct tree_loader *loader)
{
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t type = intern(loader, &token);
		bool is_whole;

		kind = token_next(loader->source, &token);
		is_whole = kind == TOKEN_OBJECT ? read_device_type(loader, type)
						: token_skip(loader->source, kind);
		if (!is_whole)
			return false;
	}
	return !has_failed(kind);
}

/* ------------------------------------------------------------------ the tree */

static bool open_node(struct tree_loader *loader)
{
	struct open_node *open;
	uint32_t node = 0;

	if (!array_reserve(&loader->stack, &loader->stack_capacity, loader->depth + 1,
			   sizeof(*loader->stack))) {
		loader->profile->out_of_memory = true;
		return false;
	}
	if (loader->depth)
		node = profile_node(loader->profile, loader->stack[loader->depth - 1].node, 0);
	open = &loader->stack[loader->depth++];
	*open = (struct open_node){
		.node = node, .min_ns = KERNEL_TIME_UNKNOWN, .max_ns = KERNEL_TIME_UNKNOWN};
	return !loader->profile->out_of_memory;
}

/* Sets what was not known while the node was open. */
static void close_node(struct tree_loader *loader)
{
	struct profile *profile = loader->profile;
	struct open_node *open = &loader->stack[--loader->depth];
	uint32_t first_kernel = profile->nodes[open->node].first_kernel;

	if (first_kernel) {
		struct profile_kernel *kernel = &profile->kernels[first_kernel];

		if (open->min_ns != KERNEL_TIME_UNKNOWN)
			kernel->min_ns = open->min_ns;
		if (open->max_ns != KERNEL_TIME_UNKNOWN)
			kernel->max_ns = open->max_ns;
		kernel->histogram = open->histogram;
		kernel->first_config = open->first_config;
	}
	if (!open->has_frame)
		open->frame.name = profile_string(profile, "<unknown>", 9);
	if (open->node == 0) {
		if (open->has_frame)
			profile->frames[0] = (struct profile_frame){.kind = FRAME_ROOT,
								    .name = open->frame.name};
		return;
	}
	if (open->frame.kind != FRAME_SOURCE)
		open->frame.kind = first_kernel ? FRAME_KERNEL : FRAME_NAME;
	profile->nodes[open->node].frame = profile_frame(profile, open->frame);
}

/* The next member of the node on top of the stack, or the next child in its list. */
static bool read_member(struct tree_loader *loader)
{
	struct open_node *open = &loader->stack[loader->depth - 1];
	struct token token;
	enum token_kind kind = token_next(loader->source, &token);
	bool is_children, is_frame, is_metrics, is_extras;

	if (has_failed(kind))
		return false;
	if (open->is_in_children) {
		if (kind == TOKEN_OBJECT)
			return open_node(loader);
		if (kind != TOKEN_ARRAY_END)
			return token_skip(loader->source, kind);
		open->is_in_children = false;
		return true;
	}
	if (kind == TOKEN_OBJECT_END) {
		close_node(loader);
		return true;
	}
	is_children = is_text(&token, "children");
	is_frame = is_text(&token, "frame");
	is_metrics = is_text(&token, "metrics");
	is_extras = is_text(&token, "proton");
	kind = token_next(loader->source, &token);
	if (is_children && kind == TOKEN_ARRAY)
		return open->has_children = open->is_in_children = true;
	if (is_frame && kind == TOKEN_OBJECT)
		return read_frame(loader, open);
	if (is_metrics && kind == TOKEN_OBJECT)
		return read_metrics(loader, open);
	if (is_extras && kind == TOKEN_OBJECT)
		return read_extras(loader, open);
	return token_skip(loader->source, kind);
}

/* False if there is no end of the tree to be found; *is_tree if what was read is part of one. */
static bool read_root(struct tree_loader *loader, bool *is_tree)
{
	bool is_whole = open_node(loader);

	while (is_whole && loader->depth)
		is_whole = read_member(loader) && !loader->profile->out_of_memory;
	*is_tree = loader->stack && (loader->stack[0].has_frame || loader->stack[0].has_children);
	return is_whole && *is_tree;
}

/*
 * The list: the tree, the devices, and what else may follow. False if it ended early or is wrong.
 */
static bool read_list(struct tree_loader *loader, bool *is_tree)
{
	struct token token;
	enum token_kind kind = token_next(loader->source, &token);
	bool is_second = true;

	*is_tree = false;
	if (kind != TOKEN_ARRAY || token_next(loader->source, &token) != TOKEN_OBJECT)
		return false;
	if (!read_root(loader, is_tree))
		return false;
	while ((kind = token_next(loader->source, &token)) != TOKEN_ARRAY_END) {
		if (is_second && kind == TOKEN_OBJECT) {
			if (!read_devices(loader))
				return false;
		} else if (!token_skip(loader->source, kind)) {
			return false;
		}
		is_second = false;
	}
	return token_next(loader->source, &token) == TOKEN_END;
}

/* ------------------------------------------------------------------ the whole */

static int fail_load(const struct token_source *source, bool is_tree, struct proton_error *err)
{
	struct token token;

	if (token_next(source, &token) == TOKEN_ERROR) {
		int status = source->error(source->reader, err);

		if (status == PROTON_E_FORMAT && !is_tree)
			err_wrap(err, "not a profile");
		return status;
	}
	return err_set(err, PROTON_E_FORMAT,
		       "not a profile: a list of a tree and a device table is expected");
}

int load_tree(const struct token_source *source, struct profile **out, struct proton_error *err)
{
	struct tree_loader loader = {.source = source, .profile = profile_new()};
	struct profile *profile = loader.profile;
	bool is_tree;
	bool is_whole;
	int status = PROTON_OK;

	if (!profile)
		return err_set(err, PROTON_E_NOMEM, "out of memory");
	loader.time = profile_string(profile, "time (ns)", 9);
	loader.count = profile_string(profile, "count", 5);
	loader.device_id = profile_string(profile, "device_id", 9);
	loader.device_type = profile_string(profile, "device_type", 11);
	is_whole = read_list(&loader, &is_tree);
	if (!is_whole && !(is_tree && source->is_truncated(source->reader)))
		status = fail_load(source, is_tree, err);
	if (status == PROTON_OK) {
		profile->is_damaged |= !is_whole;
		while (loader.depth)
			close_node(&loader);
		settle_metrics(profile, &loader.root);
	}
	if (status == PROTON_OK && profile->out_of_memory)
		status = err_set(err, PROTON_E_NOMEM, "out of memory");
	free(loader.stack);
	free(loader.last_uses);
	free(loader.root.names);
	free(loader.elements);
	if (status == PROTON_OK)
		*out = profile;
	else
		profile_free(profile);
	return status;
}
