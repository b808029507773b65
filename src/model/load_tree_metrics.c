/*
 * Loader of the metrics of nodes in hatchet files, and of the kernels they describe. Which metrics
 * are inclusive (their names are on ROOT), and which are doubles although some values were written
 * as integers, is known only after the whole tree.
 */
#include "model/load_tree.h"

#include <stdio.h>

#include "base/array.h"
#include "base/buf.h"

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

static bool is_number(const struct token *token)
{
	return token->kind == TOKEN_INT64 || token->kind == TOKEN_UINT64 ||
	       token->kind == TOKEN_DOUBLE;
}

static double number_of(const struct token *token)
{
	return token->kind == TOKEN_INT64    ? (double)token->as.int64
	       : token->kind == TOKEN_UINT64 ? (double)token->as.uint64
					     : token->as.float64;
}

/* The value for `name` on `node`: new, or the existing one if the name was given before. */
static struct profile_value *value_for(struct tree_loader *loader, uint32_t node, uint32_t name,
				       enum proton_metric_type type)
{
	struct profile *profile = loader->profile;
	uint32_t metric = profile_metric(profile, name, (uint16_t)type, 0);

	if (!array_reserve_zeros(&loader->last_uses, &loader->last_use_capacity, metric + 1,
				 sizeof(*loader->last_uses))) {
		profile->out_of_memory = true;
		return &profile->values[0];
	}
	if (loader->last_uses[metric].node_plus_1 == node + 1)
		return &profile->values[loader->last_uses[metric].value];
	struct profile_value *value = profile_value(profile, node, metric);
	loader->last_uses[metric].node_plus_1 = node + 1;
	loader->last_uses[metric].value = (uint32_t)(value - profile->values);
	return value;
}

/* Stores a number, string or word; anything that cannot be a metric is skipped. */
static void store_scalar(struct tree_loader *loader, uint32_t node, uint32_t name,
			 const struct token *token)
{
	enum proton_metric_type type = PROTON_METRIC_INT64;
	struct profile_value value = {0};

	switch (token->kind) {
	case TOKEN_INT64:
		value.as.int64 = token->as.int64;
		break;
	case TOKEN_BOOL:
		value.as.int64 = token->as.boolean;
		break;
	case TOKEN_UINT64:
	case TOKEN_DOUBLE:
		type = PROTON_METRIC_DOUBLE;
		value.as.float64 = number_of(token);
		break;
	case TOKEN_STRING:
		type = PROTON_METRIC_STRING;
		value.as.string = tree_string(loader, token);
		break;
	default:
		return;
	}
	if (node == 0 && !loader->is_root_rest && type != PROTON_METRIC_STRING) {
		loader->profile->out_of_memory |=
			!ARRAY_ADD(loader->root.names, loader->root.count,
				   (struct root_name){.name = name, .type = (uint16_t)type});
		if (type == PROTON_METRIC_INT64 ? !value.as.int64 : value.as.float64 == 0)
			return;
	}
	value_for(loader, node, name, type)->as = value.as;
}

static void int64s_to_doubles(uint64_t *elements, size_t count)
{
	for (size_t i = 0; i < count; i++)
		elements[i] = bits_of_double((double)(int64_t)elements[i]);
}

/* Reads a list of numbers. A list of anything else is skipped. */
static void read_vector(struct tree_loader *loader, uint32_t node, uint32_t name)
{
	enum proton_metric_type type = PROTON_METRIC_INT64_VECTOR;
	bool is_usable = true;
	size_t count = 0;
	struct token token;

	while (tree_next(loader, &token)) {
		is_usable &= is_number(&token);
		if (!is_usable)
			continue;
		if (!array_reserve(&loader->elements, &loader->element_capacity, count + 1,
				   sizeof(*loader->elements))) {
			loader->profile->out_of_memory = true;
			return;
		}
		if (token.kind == TOKEN_INT64 && type == PROTON_METRIC_INT64_VECTOR) {
			loader->elements[count++] = (uint64_t)token.as.int64;
			continue;
		}
		if (type == PROTON_METRIC_INT64_VECTOR)
			int64s_to_doubles(loader->elements, count);
		type = PROTON_METRIC_DOUBLE_VECTOR;
		loader->elements[count++] = bits_of_double(number_of(&token));
	}
	if (!is_usable || token.kind != TOKEN_ARRAY_END)
		return;
	uint32_t words = profile_vector(loader->profile, loader->elements, count);
	value_for(loader, node, name, type)->as.vector = words;
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
	uint64_t total = 0, count = 0;
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
	if (name == loader->time && is_number(token)) {
		metrics->time = *token;
	} else if (name == loader->count && is_number(token)) {
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

void tree_read_metrics(struct tree_loader *loader, struct open_node *open)
{
	struct kernel_metrics metrics = {.time.kind = TOKEN_END, .count.kind = TOKEN_END};
	struct token token;

	loader->root.is_known |= open->node == 0 && !loader->is_root_rest;
	while (tree_next(loader, &token)) {
		uint32_t name = tree_string(loader, &token);

		tree_next(loader, &token);
		if (take_kernel_metric(loader, &metrics, name, &token))
			continue;
		if (tree_open(loader, &token, TOKEN_ARRAY))
			read_vector(loader, open->node, name);
		else
			store_scalar(loader, open->node, name, &token);
	}
	store_kernel(loader, open, &metrics);
}

/* ------------------------------------------------------------------ after the whole tree */

ARRAY_ORDER(compare_root_names, struct root_name, ORDER_OF(a->name, b->name))

struct metric_order {
	uint32_t name;
	uint32_t type;
	uint32_t metric;
};

ARRAY_ORDER(compare_metric_orders, struct metric_order,
	    ORDER_OF(a->name, b->name) ?: ORDER_OF(a->type, b->type))

ARRAY_ORDER(compare_metric_names, struct metric_order, ORDER_OF(a->name, b->name))

/*
 * Names that are only on ROOT are metrics too; a kernel's built-ins only if there are no kernels.
 */
static void add_root_metrics(struct tree_loader *loader, const struct metric_order *orders,
			     size_t count)
{
	const struct root_metrics *root = &loader->root;
	struct profile *profile = loader->profile;

	for (size_t i = 0; i < root->count; i++) {
		const struct root_name *name = &root->names[i];
		struct metric_order key = {.name = name->name};
		bool is_built_in = name->name == loader->time || name->name == loader->count;

		if ((i && name[-1].name == name->name) ||
		    (is_built_in && profile->kernel_count > 1))
			continue;
		if (!count || !bsearch(&key, orders, count, sizeof(*orders), compare_metric_names))
			profile_metric(profile, name->name, name->type, 0);
	}
}

static void value_to_double(struct profile *profile, struct profile_value *value, uint16_t type)
{
	if (type == PROTON_METRIC_INT64)
		value->as.float64 = (double)value->as.int64;
	else
		int64s_to_doubles(profile->words + value->as.vector + 1,
				  profile->words[value->as.vector]);
}

/* Merges two metrics of the same name, one of integers and one of doubles. */
static bool merge_number_types(struct profile *profile, const struct metric_order *orders,
			       size_t count)
{
	AUTO_FREE uint32_t *into = malloc((profile->metric_count + 1) * sizeof(*into));
	size_t kept = 0, merged = 0;

	if (!into)
		return false;
	for (uint32_t i = 0; i < profile->metric_count; i++)
		into[i] = i;
	for (size_t i = 0; i + 1 < count; i++) {
		uint32_t type = orders[i].type;

		if (orders[i].name == orders[i + 1].name &&
		    ((type == PROTON_METRIC_INT64 && orders[i + 1].type == PROTON_METRIC_DOUBLE) ||
		     (type == PROTON_METRIC_INT64_VECTOR &&
		      orders[i + 1].type == PROTON_METRIC_DOUBLE_VECTOR))) {
			into[orders[i].metric] = orders[i + 1].metric;
			merged++;
		}
	}
	for (size_t i = 1; merged && i < profile->value_count; i++) {
		struct profile_value *value = &profile->values[i];

		if (into[value->metric] != value->metric) {
			value_to_double(profile, value, profile->metrics[value->metric].type);
			value->metric = into[value->metric];
		}
	}
	/* Close the gaps; `into` becomes the new index of each remaining metric. */
	for (uint32_t i = 0; merged && i < profile->metric_count; i++) {
		if (into[i] != i)
			continue;
		into[i] = (uint32_t)kept;
		profile->metrics[kept++] = profile->metrics[i];
	}
	for (size_t i = 1; merged && i < profile->value_count; i++)
		profile->values[i].metric = into[profile->values[i].metric];
	if (merged) {
		profile->metric_count = kept;
		hash_table_fini(&profile->metric_index);
		profile->metrics_indexed = 0;
		profile_metric(profile, profile->metrics[0].name, profile->metrics[0].type, 0);
	}
	return true;
}

/* Metrics that are not on ROOT are exclusive. If ROOT is missing, the name decides. */
static void settle_flags(struct profile *profile, const struct root_metrics *root)
{
	uint32_t cpu_time = profile_string(profile, "cpu_time (ns)", 13);

	for (size_t i = 0; i < profile->metric_count; i++) {
		struct row_metric *metric = &profile->metrics[i];
		struct root_name key = {.name = metric->name};
		bool is_inclusive = false;

		if (!profile_is_number(metric->type))
			is_inclusive = false;
		else if (!root->is_known)
			is_inclusive = metric->name != cpu_time;
		else if (root->count)
			is_inclusive = bsearch(&key, root->names, root->count, sizeof(key),
					       compare_root_names) != NULL;
		metric->flags = is_inclusive ? 0 : METRIC_EXCLUSIVE;
	}
}

void tree_settle_metrics(struct tree_loader *loader)
{
	struct root_metrics *root = &loader->root;
	struct profile *profile = loader->profile;
	size_t count = profile->metric_count;
	AUTO_FREE struct metric_order *orders = malloc((count + 1) * sizeof(*orders));

	if (!orders) {
		profile->out_of_memory = true;
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		orders[i] = (struct metric_order){.name = profile->metrics[i].name,
						  .type = profile->metrics[i].type,
						  .metric = i};
	ARRAY_SORT(orders, count, compare_metric_orders);
	ARRAY_SORT(root->names, root->count, compare_root_names);
	add_root_metrics(loader, orders, count);
	if (!merge_number_types(profile, orders, count))
		profile->out_of_memory = true;
	settle_flags(profile, root);
}
