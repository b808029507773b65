/* Loader of a node's metrics in hatchet files, and of the kernel they describe. */
#include "base/buf.h"
#include "model/load_tree_parts.h"

#include <stdio.h>

#include "base/array.h"

/* ------------------------------------------------------------------ numbers */

bool tree_u64(const struct token *token, uint64_t *value)
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

const char *tree_number_before(const char *begin, const char *end, uint32_t *number)
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
	*number = (uint32_t)value;
	return at;
}

/* The value for `name` on `node`: new, or the existing one if the name was given before. */
static struct profile_value *value_for(struct tree_loader *loader, uint32_t node, uint32_t name,
				       enum proton_metric_type type)
{
	struct profile *profile = loader->profile;
	uint32_t metric = profile_metric(profile, name, (uint16_t)type, 0);
	struct profile_value *value;

	if (!array_reserve_zeros(&loader->last_uses, &loader->last_use_capacity, metric + 1,
				 sizeof(*loader->last_uses))) {
		profile->out_of_memory = true;
		return &profile->values[0];
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

/* Stores a number, string or word; anything that cannot be a metric is skipped. */
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
		uint32_t text = tree_string(loader, token);

		value_for(loader, node, name, PROTON_METRIC_STRING)->as.string = text;
		break;
	}
	default:
		break;
	}
}

static void int64s_to_doubles(uint64_t *elements, size_t count)
{
	for (size_t i = 0; i < count; i++)
		elements[i] = bits_of_double((double)(int64_t)elements[i]);
}

/* Reads a list of numbers, after its begin token. A list of anything else is skipped. */
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

		if (tree_has_failed(kind))
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
		loader->elements[count++] = bits_of_double(number);
	}
	if (!is_usable)
		return true;
	words = profile_vector(loader->profile, loader->elements, count);
	value_for(loader, node, name, type)->as.vector = words;
	return true;
}

/* The metrics of a node that describe a kernel. */
struct kernel_metrics {
	struct token time, count; /* TOKEN_END: not given */
	uint32_t device_type;     /* strings */
	uint32_t device_id;
	bool has_type;
	bool has_id;
};

/* Makes a kernel of the metrics, or stores them as ordinary metrics. */
static void store_kernel(struct tree_loader *loader, struct open_node *open,
			 const struct kernel_metrics *metrics)
{
	struct profile *profile = loader->profile;
	uint32_t node = open->node;
	uint64_t total = 0;
	uint64_t count = 0;
	bool has_time = tree_u64(&metrics->time, &total);
	bool has_count = tree_u64(&metrics->count, &count);
	uint32_t id = 0;
	bool is_kernel = node != 0 && (has_time || has_count) && metrics->has_type &&
			 metrics->has_id &&
			 tree_device_id(profile_text(profile, metrics->device_id),
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

/* Takes a metric that may belong to a kernel; false for any other metric. */
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
		metrics->device_type = tree_string(loader, token);
		metrics->has_type = true;
	} else if (name == loader->device_id && token->kind == TOKEN_STRING) {
		metrics->device_id = tree_string(loader, token);
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

bool tree_read_metrics(struct tree_loader *loader, struct open_node *open)
{
	struct kernel_metrics metrics = {.time.kind = TOKEN_END, .count.kind = TOKEN_END};
	struct token token;
	enum token_kind kind;
	bool is_whole = true;

	loader->root.is_known |= open->node == 0 && !loader->is_root_rest;
	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t name = tree_string(loader, &token);

		kind = token_next(loader->source, &token);
		if (take_kernel_metric(loader, &metrics, name, &token))
			continue;
		if (kind == TOKEN_ARRAY)
			is_whole = read_vector(loader, open->node, name);
		else if (kind == TOKEN_OBJECT)
			is_whole = token_skip(loader->source, kind);
		else
			store_scalar(loader, open->node, name, &token);
		if (!is_whole || tree_has_failed(kind))
			break;
	}
	store_kernel(loader, open, &metrics);
	return is_whole && !tree_has_failed(kind);
}
