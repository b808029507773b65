/* Final flags and number types of the metrics of a loaded tree. */
#include "model/settle.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

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
static void add_root_metrics(struct profile *profile, const struct root_metrics *root,
			     const struct metric_order *orders, size_t count)
{
	uint32_t time = profile_string(profile, "time (ns)", 9);
	uint32_t calls = profile_string(profile, "count", 5);

	for (size_t i = 0; i < root->count; i++) {
		const struct root_name *name = &root->names[i];
		struct metric_order key = {.name = name->name};
		bool is_built_in = name->name == time || name->name == calls;

		if ((i && name[-1].name == name->name) ||
		    (is_built_in && profile->kernel_count > 1))
			continue;
		if (!count || !bsearch(&key, orders, count, sizeof(*orders), compare_metric_names))
			profile_metric(profile, name->name, name->type, 0);
	}
}

static void int64s_to_doubles(uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double value = (double)(int64_t)words[i];

		memcpy(&words[i], &value, sizeof(value));
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
	uint32_t *into = malloc((profile->metric_count + 1) * sizeof(*into));
	size_t kept = 0;
	size_t merged = 0;

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
	free(into);
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

void settle_metrics(struct profile *profile, struct root_metrics *root)
{
	size_t count = profile->metric_count;
	struct metric_order *orders = malloc((count + 1) * sizeof(*orders));

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
	add_root_metrics(profile, root, orders, count);
	if (!merge_number_types(profile, orders, count))
		profile->out_of_memory = true;
	settle_flags(profile, root);
	free(orders);
}
