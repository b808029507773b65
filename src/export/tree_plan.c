/* Content of hatchet files: keys, devices and the metrics of each node. */
#include "export/tree_plan.h"

#include <stdio.h>

#include "base/array.h"
#include "export/bounds.h"

static const char *const built_in_names[BUILT_INS] = {
	[BUILT_IN_COUNT] = "count",
	[BUILT_IN_DEVICE_ID] = "device_id",
	[BUILT_IN_DEVICE_TYPE] = "device_type",
	[BUILT_IN_TIME] = "time (ns)",
};

/* Every profile may cache this much text. */
#define TEXTS_BYTES_MIN ((uint64_t)8 << 20)

/* Longer lists are sorted by qsort(). */
#define INSERTION_SORT_MAX 32u

static bool has_kernels(const struct tree_plan *plan)
{
	return plan->profile->kernel_count > 1;
}

static bool is_inclusive_number(const struct row_metric *metric)
{
	return (metric->type == PROTON_METRIC_INT64 || metric->type == PROTON_METRIC_DOUBLE) &&
	       !(metric->flags & (METRIC_EXCLUSIVE | METRIC_PROPERTY));
}

/* ------------------------------------------------------------------ keys */

/* A key before sorting, and the location that receives its final index. */
struct key_draft {
	struct plan_key key;
	uint32_t *index;
};

static int compare_texts(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t shorter = a_length < b_length ? a_length : b_length;
	int order = shorter ? memcmp(a, b, shorter) : 0;

	return order ? order : (a_length > b_length) - (a_length < b_length);
}

ARRAY_ORDER(compare_drafts, struct key_draft,
	    compare_texts(a->key.text, a->key.length, b->key.text, b->key.length))

static bool is_metric_name(const struct profile *profile, const char *text)
{
	uint32_t name = strings_find(&profile->strings, text, strlen(text));

	for (size_t i = 0; name != STRING_NONE && i < profile->metric_count; i++)
		if (profile->metrics[i].name == name)
			return true;
	return false;
}

/* "<name> (user)", with more suffixes until no metric has that name. */
static char *make_user_name(const struct profile *profile, const char *name)
{
	char *text = NULL;
	char *longer;

	if (asprintf(&text, "%s (user)", name) < 0)
		return NULL;
	while (is_metric_name(profile, text)) {
		if (asprintf(&longer, "%s (user)", text) < 0)
			longer = NULL;
		free(text);
		text = longer;
		if (!text)
			return NULL;
	}
	return text;
}

static bool is_built_in(const char *name)
{
	for (int i = 0; i < BUILT_INS; i++)
		if (strcmp(name, built_in_names[i]) == 0)
			return true;
	return false;
}

/* hatchet's own columns, which a metric of that name would overwrite. */
static bool is_reserved(const char *name)
{
	return strcmp(name, "name") == 0 || strcmp(name, "node") == 0 ||
	       strcmp(name, "_hatchet_nid") == 0;
}

/* Adds a key for a metric, under its own name or the one that avoids a conflict. */
static bool add_draft(const struct tree_plan *plan, struct key_draft *drafts, size_t *count,
		      uint32_t metric, bool gives_way, uint32_t *index)
{
	const struct profile *profile = plan->profile;
	uint32_t name = profile->metrics[metric].name;
	struct plan_key key = {.text = profile_text(profile, name),
			       .length = string_length(&profile->strings, name)};

	if (gives_way) {
		key.owned = make_user_name(profile, key.text);
		if (!key.owned)
			return false;
		key.text = key.owned;
		key.length = strlen(key.owned);
	}
	drafts[(*count)++] = (struct key_draft){.key = key, .index = index};
	return true;
}

/* Assigns the drafts their indices; the keys take over their texts. */
static void place_keys(struct tree_plan *plan, struct key_draft *drafts, size_t count)
{
	ARRAY_SORT(drafts, count, compare_drafts);
	for (size_t i = 0; i < count; i++) {
		const struct plan_key *key = &drafts[i].key;
		size_t used = plan->key_count;

		if (used > 0 &&
		    compare_texts(plan->keys[used - 1].text, plan->keys[used - 1].length, key->text,
				  key->length) == 0)
			free(key->owned);
		else
			plan->keys[plan->key_count++] = *key;
		*drafts[i].index = (uint32_t)(plan->key_count - 1);
	}
}

static bool make_keys(struct tree_plan *plan)
{
	const struct profile *profile = plan->profile;
	size_t capacity = 2 * profile->metric_count + BUILT_INS;
	struct key_draft *drafts = malloc(capacity * sizeof(*drafts));
	size_t count = 0;
	bool is_done = false;

	plan->keys = calloc(capacity, sizeof(*plan->keys));
	plan->metric_keys = calloc(profile->metric_count + 1, sizeof(*plan->metric_keys));
	plan->user_keys = calloc(profile->metric_count + 1, sizeof(*plan->user_keys));
	if (!drafts || !plan->keys || !plan->metric_keys || !plan->user_keys)
		goto out;
	for (int i = 0; i < BUILT_INS; i++)
		drafts[count++] = (struct key_draft){.key = {.text = built_in_names[i],
							     .length = strlen(built_in_names[i])},
						     .index = &plan->built_in_keys[i]};
	for (uint32_t i = 0; i < profile->metric_count; i++) {
		const char *name = profile_text(profile, profile->metrics[i].name);

		if (!add_draft(plan, drafts, &count, i, is_reserved(name), &plan->metric_keys[i]) ||
		    !add_draft(plan, drafts, &count, i, is_reserved(name) || is_built_in(name),
			       &plan->user_keys[i]))
			goto out;
	}
	place_keys(plan, drafts, count);
	count = 0;
	is_done = true;
out:
	for (size_t i = 0; drafts && i < count; i++)
		free(drafts[i].key.owned);
	free(drafts);
	return is_done;
}

/* ------------------------------------------------------------------ devices */

ARRAY_ORDER(compare_devices, struct plan_device, strcmp(a->type, b->type) ?: strcmp(a->id, b->id))

/* Cycle metrics have their device in a metric of the node. */
static void observe_named(const struct tree_plan *plan, bool *is_observed)
{
	const struct profile *profile = plan->profile;
	uint32_t name = strings_find(&profile->strings, "device_id", 9);

	for (size_t i = 0; i < profile->value_count && name != STRING_NONE; i++) {
		const struct profile_value *value = &profile->values[i];

		if (value->metric >= profile->metric_count)
			continue;
		const struct row_metric *metric = &profile->metrics[value->metric];
		if (i == 0 || metric->name != name || metric->type != PROTON_METRIC_STRING)
			continue;
		for (size_t d = 0; d < profile->device_count; d++)
			if (strcmp(plan->device_texts[d].id,
				   profile_text(profile, value->as.string)) == 0)
				is_observed[d] = true;
	}
}

static bool make_devices(struct tree_plan *plan)
{
	const struct profile *profile = plan->profile;
	size_t count = profile->device_count;
	AUTO_FREE bool *is_observed = calloc(count + 1, sizeof(*is_observed));

	plan->device_texts = calloc(count + 1, sizeof(*plan->device_texts));
	plan->devices = calloc(count + 1, sizeof(*plan->devices));
	if (!is_observed || !plan->device_texts || !plan->devices)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct plan_device *device = &plan->device_texts[i];

		device->device = (uint32_t)i;
		device->type = profile_text(profile, profile->devices[i].type);
		snprintf(device->id, sizeof(device->id), "%u", profile->devices[i].id);
	}
	for (size_t i = 1; i < profile->kernel_count; i++)
		is_observed[profile->kernels[i].device] = true;
	observe_named(plan, is_observed);
	for (size_t i = 0; i < count; i++)
		if (is_observed[i])
			plan->devices[plan->device_count++] = plan->device_texts[i];
	ARRAY_SORT(plan->devices, plan->device_count, compare_devices);
	return true;
}

int tree_plan_init(struct tree_plan *plan, const struct profile *profile, struct proton_error *err)
{
	*plan = (struct tree_plan){.profile = profile};
	if (!profile->out_of_memory && make_keys(plan) && make_devices(plan))
		return PROTON_OK;
	tree_plan_fini(plan);
	return err_nomem(err);
}

void tree_plan_fini(struct tree_plan *plan)
{
	for (size_t i = 0; i < plan->key_count; i++)
		free(plan->keys[i].owned);
	FREE_ALL(plan->keys, plan->metric_keys, plan->user_keys, plan->device_texts, plan->devices,
		 plan->entries);
	*plan = (struct tree_plan){0};
}

/* ------------------------------------------------------------------ a node's metrics */

static struct plan_entry *add_entry(struct tree_plan *plan, uint32_t key, uint32_t type)
{
	struct plan_entry *entry = &plan->entries[plan->entry_count];

	*entry = (struct plan_entry){
		.key = key, .type = type, .order = (uint32_t)plan->entry_count++};
	return entry;
}

/* True if the node of the `metric` value also has built-in metrics. */
static bool is_user_key_used(const struct tree_plan *plan, uint32_t metric)
{
	const struct profile *profile = plan->profile;

	for (size_t i = 0; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];

		for (uint32_t v = node->first_kernel || i == 0 ? node->first_value : 0; v;
		     v = profile->values[v].next)
			if (profile->values[v].metric == metric)
				return true;
	}
	return false;
}

/* ROOT has a number for every inclusive name, 0 unless more was recorded there. */
static void add_root_zeros(struct tree_plan *plan)
{
	const struct profile *profile = plan->profile;
	uint64_t total_ns = 0, count = 0;

	for (size_t i = 0; i < profile->metric_count; i++) {
		const struct row_metric *metric = &profile->metrics[i];

		if (!is_inclusive_number(metric))
			continue;
		add_entry(plan, plan->metric_keys[i], metric->type); /* int64 or double */
		if (plan->user_keys[i] != plan->metric_keys[i] && has_kernels(plan) &&
		    is_user_key_used(plan, (uint32_t)i))
			add_entry(plan, plan->user_keys[i], metric->type);
	}
	if (!has_kernels(plan))
		return;
	for (uint32_t k = profile->nodes[0].first_kernel; k; k = profile->kernels[k].next) {
		total_ns += profile->kernels[k].total_ns;
		count += profile->kernels[k].count;
	}
	add_entry(plan, plan->built_in_keys[BUILT_IN_COUNT], PLAN_UINT64)->as.uint64 = count;
	add_entry(plan, plan->built_in_keys[BUILT_IN_TIME], PLAN_UINT64)->as.uint64 = total_ns;
}

static void add_kernel(struct tree_plan *plan, const struct profile_kernel *kernel)
{
	const struct plan_device *device = &plan->device_texts[kernel->device];
	const uint32_t *keys = plan->built_in_keys;

	add_entry(plan, keys[BUILT_IN_COUNT], PLAN_UINT64)->as.uint64 = kernel->count;
	add_entry(plan, keys[BUILT_IN_DEVICE_ID], PLAN_TEXT)->as.text = device->id;
	add_entry(plan, keys[BUILT_IN_DEVICE_TYPE], PLAN_TEXT)->as.text = device->type;
	add_entry(plan, keys[BUILT_IN_TIME], PLAN_UINT64)->as.uint64 = kernel->total_ns;
}

ARRAY_ORDER(compare_entries, struct plan_entry,
	    ORDER_OF(a->key, b->key) ?: ORDER_OF(a->order, b->order))

/* Sorts by key; of equal keys the last stays. */
static void sort_entries(struct tree_plan *plan)
{
	struct plan_entry *entries = plan->entries;
	size_t count = plan->entry_count;
	size_t kept = 0;

	if (count > INSERTION_SORT_MAX) {
		ARRAY_SORT(entries, count, compare_entries);
	} else {
		for (size_t i = 1; i < count; i++) {
			size_t at = i;

			if (entries[i - 1].key <= entries[i].key)
				continue;
			struct plan_entry entry = entries[i];
			for (; at > 0 && entries[at - 1].key > entry.key; at--)
				entries[at] = entries[at - 1];
			entries[at] = entry;
		}
	}
	for (size_t i = 0; i < count; i++)
		if (i + 1 == count || entries[i].key != entries[i + 1].key)
			entries[kept++] = entries[i];
	plan->entry_count = kept;
}

static const struct row_metric *metric_of(const struct tree_plan *plan, uint32_t value)
{
	return &plan->profile->metrics[plan->profile->values[value].metric];
}

bool tree_plan_entries(struct tree_plan *plan, uint32_t node, uint32_t kernel, bool is_rest)
{
	const struct profile *profile = plan->profile;
	const struct profile_node *row = &profile->nodes[node];
	uint32_t first = kernel == row->first_kernel ? row->first_value : 0;
	const uint32_t *keys = row->first_kernel || (node == 0 && has_kernels(plan))
				       ? plan->user_keys
				       : plan->metric_keys;
	size_t wanted = BUILT_INS;

	for (uint32_t v = first; v; v = profile->values[v].next)
		wanted++;
	if (node == 0)
		wanted += 2 * profile->metric_count;
	if (!array_reserve(&plan->entries, &plan->entry_capacity, wanted, sizeof(*plan->entries)))
		return false;
	plan->entry_count = 0;
	if (node == 0 && !is_rest)
		add_root_zeros(plan);
	for (uint32_t v = first; v; v = profile->values[v].next)
		if (node != 0 || is_inclusive_number(metric_of(plan, v)) != is_rest)
			add_entry(plan, keys[profile->values[v].metric], metric_of(plan, v)->type)
				->as.int64 = profile->values[v].as.int64;
	if (node != 0 && kernel)
		add_kernel(plan, &profile->kernels[kernel]);
	sort_entries(plan);
	return true;
}

bool tree_plan_has_root_rest(const struct tree_plan *plan)
{
	const struct profile *profile = plan->profile;

	for (uint32_t v = profile->nodes[0].first_value; v; v = profile->values[v].next)
		if (!is_inclusive_number(metric_of(plan, v)))
			return true;
	return false;
}

/* ------------------------------------------------------------------ the rest */

bool tree_plan_has_range(const struct tree_plan *plan, uint32_t kernel)
{
	const struct profile_kernel *row = &plan->profile->kernels[kernel];

	return kernel && row->count > 1 && row->min_ns != KERNEL_TIME_UNKNOWN &&
	       row->max_ns != KERNEL_TIME_UNKNOWN;
}

uint32_t tree_plan_configs(const struct tree_plan *plan, uint32_t kernel)
{
	const struct profile *profile = plan->profile;
	uint32_t count = 0;

	for (uint32_t l = profile->kernels[kernel].first_config; l; l = profile->configs[l].next)
		count++;
	return count;
}

uint32_t tree_plan_kernel_extras(const struct tree_plan *plan, uint32_t kernel)
{
	const struct profile_kernel *row = &plan->profile->kernels[kernel];
	uint32_t count = kernel && row->first_config ? 1 : 0;

	if (tree_plan_has_range(plan, kernel))
		count += row->histogram ? 3 : 2;
	return count;
}

bool tree_plan_shows_counter(const struct row_counter *counter, bool is_loss)
{
	return counter->is_loss == is_loss && (counter->value || !is_loss);
}

uint32_t tree_plan_counters(const struct tree_plan *plan, bool is_loss)
{
	uint32_t count = 0;

	for (size_t i = 0; i < plan->profile->counter_count; i++)
		count += tree_plan_shows_counter(&plan->profile->counters[i], is_loss);
	return count;
}

uint32_t tree_plan_root_extras(const struct tree_plan *plan)
{
	const struct profile *profile = plan->profile;

	return (uint32_t)(tree_plan_counters(plan, false) > 0) +
	       (uint32_t)(tree_plan_counters(plan, true) > 0) +
	       (uint32_t)(profile->info_count > 0) + tree_plan_has_root_rest(plan) +
	       profile->is_damaged + profile->is_unfinished + (profile->start_ns != 0) +
	       (profile->end_ns != 0);
}

/* ------------------------------------------------------------------ texts */

/* hatchet rejects nodes without a name. */
static void encode_frame(struct plan_texts *texts, uint32_t frame, struct out *out)
{
	const struct profile *profile = texts->profile;
	const struct row_frame *row = &profile->frames[frame];
	struct out *text = &texts->scratch;

	if (row->kind != FRAME_SOURCE) {
		uint32_t length = string_length(&profile->strings, row->name);

		texts->encode(out, length ? profile_text(profile, row->name) : "<unnamed>",
			      length ? length : 9);
		return;
	}
	text->length = 0;
	out_text(text, profile_text(profile, row->file));
	out_byte(text, ':');
	out_u64(text, row->line);
	out_byte(text, '@');
	out_text(text, profile_text(profile, row->name));
	out_fail(out, text->errnum);
	texts->encode(out, text->bytes, text->length);
}

int plan_texts_init(struct plan_texts *texts, const struct profile *profile, plan_encode_fn *encode,
		    struct proton_error *err)
{
	uint64_t max = TEXTS_BYTES_MIN + 4 * bounds_profile_bytes(profile);
	size_t count = profile->frame_count;

	*texts = (struct plan_texts){
		.profile = profile,
		.encode = encode,
		.bytes = OUT_IN_MEMORY,
		.scratch = OUT_IN_MEMORY,
		.encoded = OUT_IN_MEMORY,
		.offsets = malloc((count + 1) * sizeof(*texts->offsets)),
	};
	if (!texts->offsets)
		return err_nomem(err);
	for (uint32_t i = 0; i < count; i++) {
		texts->offsets[i] = texts->bytes.length;
		if (texts->bytes.length < max)
			encode_frame(texts, i, &texts->bytes);
	}
	texts->offsets[count] = texts->bytes.length;
	return out_finish(&texts->bytes, err);
}

const char *plan_text(struct plan_texts *texts, uint32_t frame, size_t *length)
{
	*length = texts->offsets[frame + 1] - texts->offsets[frame];
	if (*length) /* encoded texts are never empty */
		return texts->bytes.bytes + texts->offsets[frame];
	texts->encoded.length = 0;
	encode_frame(texts, frame, &texts->encoded);
	*length = texts->encoded.length;
	return texts->encoded.errnum ? NULL : texts->encoded.bytes;
}

void plan_texts_fini(struct plan_texts *texts)
{
	out_fini(&texts->bytes);
	out_fini(&texts->scratch);
	out_fini(&texts->encoded);
	free(texts->offsets);
}
