/*
 * In-memory profile: building and lookup.
 *
 * Frames and metrics have an index by content, built at the first search. A loader that knows that
 * its frames are distinct can append them without hashing.
 */
#include "model/profile.h"

#include <stdio.h>

#include "base/array.h"
#include "base/hash.h"
#include "model/clamped.h"

/* Appends a row, or with NULL zeros, to one of the arrays; returns its index, 0: out of memory. */
static inline __attribute__((always_inline)) uint32_t append(struct profile *profile, void *array,
							     size_t *count, size_t *capacity,
							     size_t element_bytes, const void *row)
{
	char *base;

	if (*count >= *capacity &&
	    (*count >= UINT32_MAX || !array_reserve(array, capacity, *count + 1, element_bytes))) {
		profile->out_of_memory = true;
		return 0;
	}
	memcpy(&base, array, sizeof(base));
	if (row)
		memcpy(base + *count * element_bytes, row, element_bytes);
	else
		memset(base + *count * element_bytes, 0, element_bytes);
	return (uint32_t)(*count)++;
}

#define APPEND(profile, array, name, row)                                                          \
	append(profile, &(profile)->array, &(profile)->name##_count, &(profile)->name##_capacity,  \
	       sizeof(*(profile)->array), row)

uint32_t profile_string(struct profile *profile, const char *text, size_t length)
{
	uint32_t id = strings_add(&profile->strings, text, length);

	if (id != STRING_NONE)
		return id;
	profile->out_of_memory = true;
	return 0;
}

/* ------------------------------------------------------------------ frames and metrics */

static uint64_t frame_hash(const struct row_frame *frame)
{
	return hash_pair(frame->name, frame->file) + hash_pair(frame->line, frame->kind);
}

uint32_t profile_frame(struct profile *profile, struct row_frame frame)
{
	uint64_t hash = frame_hash(&frame);
	uint64_t at = hash;
	uint32_t found;

	for (size_t *i = &profile->frames_indexed; *i < profile->frame_count; ++*i) {
		if (!hash_table_add(&profile->frame_index, frame_hash(&profile->frames[*i]),
				    (uint32_t)*i + 1)) {
			profile->out_of_memory = true;
			return 0;
		}
	}
	while ((found = hash_table_next(&profile->frame_index, hash, &at)) != 0)
		if (memcmp(&profile->frames[found - 1], &frame, sizeof(frame)) == 0)
			return found - 1;
	return profile_frame_append(profile, frame);
}

uint32_t profile_name_frame(struct profile *profile, const char *name)
{
	struct row_frame frame = {.kind = FRAME_NAME, .name = profile_add_text(profile, name)};

	return profile_frame(profile, frame);
}

uint32_t profile_frame_append(struct profile *profile, struct row_frame frame)
{
	return APPEND(profile, frames, frame, &frame);
}

/* The type is not part of the key, because it may change. */
static void index_metrics(struct profile *profile)
{
	for (size_t *i = &profile->metrics_indexed; *i < profile->metric_count; ++*i) {
		if (!hash_table_add(&profile->metric_index, hash_u64(profile->metrics[*i].name),
				    (uint32_t)*i + 1)) {
			profile->out_of_memory = true;
			return;
		}
	}
}

uint32_t profile_metric(struct profile *profile, uint32_t name, uint16_t type, uint16_t flags)
{
	struct row_metric row = {.name = name, .type = type, .flags = flags};

	index_metrics(profile);
	const struct row_metric *found = profile_metric_find(profile, name, type);
	if (found)
		return (uint32_t)(found - profile->metrics);
	uint32_t id = APPEND(profile, metrics, metric, &row);
	index_metrics(profile);
	return id;
}

const struct row_metric *profile_metric_find(const struct profile *profile, uint32_t name,
					     uint16_t type)
{
	uint64_t hash = hash_u64(name);
	uint64_t at = hash;
	uint32_t found;

	while ((found = hash_table_next(&profile->metric_index, hash, &at)) != 0)
		if (profile->metrics[found - 1].type == type)
			return &profile->metrics[found - 1];
	return NULL;
}

size_t profile_frame_text(const struct profile *profile, uint32_t frame, char *text,
			  size_t capacity)
{
	const struct row_frame *row = &profile->frames[frame];
	int length;

	if (row->kind == FRAME_SOURCE)
		length = snprintf(text, capacity, "%s:%u@%s", profile_text(profile, row->file),
				  row->line, profile_text(profile, row->name));
	else
		length = snprintf(text, capacity, "%s", profile_text(profile, row->name));
	return length < 0 ? 0 : (size_t)length;
}

/* ------------------------------------------------------------------ nodes, values and kernels */

uint32_t profile_node(struct profile *profile, uint32_t parent, uint32_t frame)
{
	uint32_t id = APPEND(profile, nodes, node, NULL);

	if (!id)
		return 0;
	struct profile_node *above = &profile->nodes[parent];
	profile->nodes[id].parent = parent;
	profile->nodes[id].frame = frame;
	if (above->last_child)
		profile->nodes[above->last_child].next_sibling = id;
	else
		above->first_child = id;
	above->last_child = id;
	return id;
}

/* The link to the row after row `i`: the first member of a row. */
static uint32_t *next_of(void *rows, size_t row_bytes, uint32_t i)
{
	return (uint32_t *)(void *)((char *)rows + i * row_bytes);
}

/* Puts row `id` at the end of a node's list. */
static void put_last(void *rows, size_t row_bytes, uint32_t *first, struct list_tail *tail,
		     uint32_t node, uint32_t id)
{
	uint32_t *link = first;

	if (*link && tail->node == node && tail->row)
		link = next_of(rows, row_bytes, tail->row);
	while (*link)
		link = next_of(rows, row_bytes, *link);
	*link = id;
	*tail = (struct list_tail){node, id};
}

struct profile_value *profile_value(struct profile *profile, uint32_t node, uint32_t metric)
{
	uint32_t id = metric < profile->metric_count ? APPEND(profile, values, value, NULL) : 0;

	if (id)
		put_last(profile->values, sizeof(*profile->values),
			 &profile->nodes[node].first_value, &profile->value_tail, node, id);
	else
		profile->values[0] = (struct profile_value){0};
	profile->values[id].metric = id ? metric : 0;
	return &profile->values[id];
}

struct profile_kernel *profile_kernel(struct profile *profile, uint32_t node, uint32_t device)
{
	uint32_t id = device < profile->device_count ? APPEND(profile, kernels, kernel, NULL) : 0;

	if (id)
		put_last(profile->kernels, sizeof(*profile->kernels),
			 &profile->nodes[node].first_kernel, &profile->kernel_tail, node, id);
	else
		profile->kernels[0] = (struct profile_kernel){0};
	profile->kernels[id].device = id ? device : 0;
	return &profile->kernels[id];
}

uint32_t profile_config(struct profile *profile, uint32_t first, const struct row_config *added)
{
	struct row_config wanted = {.flags = added->flags & CONFIG_OTHER, .config = added->config};
	uint32_t found = first;
	uint32_t before = 0; /* the last one that is not the entry for all others */
	uint32_t own = 0;

	for (; found; found = profile->configs[found].next) {
		const struct row_config *other = &profile->configs[found];

		if (other->flags & CONFIG_OTHER)
			break; /* the last */
		if (!(wanted.flags & CONFIG_OTHER) &&
		    memcmp(&other->config, &wanted.config, sizeof(other->config)) == 0)
			break;
		before = found;
		own++;
	}
	if (own == CONFIGS_PER_KERNEL || wanted.flags & CONFIG_OTHER) {
		wanted.flags = CONFIG_OTHER;
		wanted.config = (struct launch_config){0};
	}
	if (!found || (profile->configs[found].flags & CONFIG_OTHER) != wanted.flags) {
		wanted.next = found;
		found = APPEND(profile, configs, config, &wanted);
		if (!found)
			return first;
		if (before)
			profile->configs[before].next = found;
		else
			first = found;
	}
	profile->configs[found].count = clamped_u64(profile->configs[found].count, added->count);
	profile->configs[found].total_ns =
		clamped_u64(profile->configs[found].total_ns, added->total_ns);
	return first;
}

void profile_first_rows(struct profile *profile)
{
	APPEND(profile, histograms, histogram, NULL);
	APPEND(profile, values, value, NULL);
	APPEND(profile, kernels, kernel, NULL);
	APPEND(profile, configs, config, NULL);
}

uint32_t profile_histogram(struct profile *profile)
{
	return APPEND(profile, histograms, histogram, NULL);
}

uint32_t profile_vector(struct profile *profile, const uint64_t *elements, size_t count)
{
	size_t at = profile->word_count;
	size_t end;

	if (__builtin_add_overflow(at, count + 1, &end) || count >= UINT32_MAX ||
	    end > UINT32_MAX ||
	    !array_reserve(&profile->words, &profile->word_capacity, end,
			   sizeof(*profile->words))) {
		profile->out_of_memory = true;
		return 0;
	}
	profile->words[at] = count;
	if (count)
		memcpy(profile->words + at + 1, elements, count * sizeof(*elements));
	profile->word_count = end;
	return (uint32_t)at;
}

/* ------------------------------------------------------------------ devices and counters */

static uint32_t add_device(struct profile *profile, struct row_device device)
{
	if (profile->device_count >= PROFILE_DEVICES_MAX) {
		profile->is_damaged = true;
		return 0;
	}
	return APPEND(profile, devices, device, &device);
}

uint32_t profile_device(struct profile *profile, uint32_t type, uint32_t id)
{
	for (uint32_t i = 0; i < profile->device_count; i++)
		if (profile->devices[i].type == type && profile->devices[i].id == id)
			return i;
	return add_device(profile, (struct row_device){.type = type, .id = id});
}

uint32_t profile_device_like(struct profile *profile, struct row_device device)
{
	for (uint32_t i = 0; i < profile->device_count; i++)
		if (memcmp(&profile->devices[i], &device, sizeof(device)) == 0)
			return i;
	return add_device(profile, device);
}

void profile_info(struct profile *profile, const char *key, const char *value)
{
	struct row_info pair = {
		.key = profile_add_text(profile, key),
		.value = profile_add_text(profile, value),
	};

	if (!profile->out_of_memory)
		APPEND(profile, info, info, &pair);
}

const char *profile_info_text(const struct profile *profile, const char *key)
{
	for (size_t i = 0; i < profile->info_count; i++)
		if (strcmp(profile_text(profile, profile->info[i].key), key) == 0)
			return profile_text(profile, profile->info[i].value);
	return "";
}

/* Enough for all counters of a recorder; further ones are kept separately. */
#define COUNTERS_SUMMED 128u

void profile_counter(struct profile *profile, const char *name, bool is_loss, uint64_t value)
{
	uint32_t text = profile_add_text(profile, name);
	struct row_counter counter = {.name = text, .is_loss = is_loss, .value = value};

	if (profile->out_of_memory)
		return;
	for (size_t i = 0; i < profile->counter_count && i < COUNTERS_SUMMED; i++) {
		if (profile->counters[i].name == text) {
			profile->counters[i].value = clamped_u64(profile->counters[i].value, value);
			return;
		}
	}
	APPEND(profile, counters, counter, &counter);
}

/* Counts `sums` of integers that reached the end of their range as lost. */
static void count_clamped(struct profile *profile, uint64_t sums)
{
	if (sums)
		profile_counter(profile, CLAMPED_COUNTER, true, sums);
}

/* ------------------------------------------------------------------ sums */

void profile_value_add(struct profile *profile, uint32_t index, const struct profile_value *from,
		       const uint64_t *vector, bool is_new, bool is_later)
{
	struct profile_value *value = &profile->values[index];
	const struct row_metric *metric = &profile->metrics[value->metric];
	bool is_adding = !is_new && !(metric->flags & METRIC_PROPERTY);
	bool is_replacing = is_new || is_later;
	bool has_doubles = metric->type == PROTON_METRIC_DOUBLE_VECTOR;
	uint64_t *words;

	switch (metric->type) {
	case PROTON_METRIC_INT64:
		if (is_adding)
			count_clamped(profile, clamped_add(&value->as.int64, from->as.int64));
		else if (is_replacing)
			value->as.int64 = from->as.int64;
		break;
	case PROTON_METRIC_DOUBLE:
		if (is_adding || is_replacing)
			value->as.float64 = from->as.float64 + (is_adding ? value->as.float64 : 0);
		break;
	case PROTON_METRIC_STRING:
		if (is_replacing)
			value->as.string = from->as.string;
		break;
	default:
		words = profile->words + value->as.vector;
		if (is_adding && words[0] == vector[0])
			count_clamped(profile, clamped_add_vector(words + 1, vector + 1, vector[0],
								  has_doubles));
		else if (is_replacing)
			value->as.vector = profile_vector(profile, vector + 1, vector[0]);
		break;
	}
}

static bool is_distribution_known(const struct profile_kernel *kernel, bool has_buckets)
{
	return has_buckets || kernel->count == 0 ||
	       (kernel->count == 1 && kernel->min_ns != KERNEL_TIME_UNKNOWN);
}

static void add_durations(uint32_t *to, const struct profile_kernel *from, const uint32_t *buckets)
{
	if (!buckets && from->count == 1)
		to[histogram_bucket(from->min_ns)] =
			clamped_u32(to[histogram_bucket(from->min_ns)], 1);
	for (uint32_t i = 0; buckets && i < HISTOGRAM_BUCKETS; i++)
		to[i] = clamped_u32(to[i], buckets[i]);
}

/* The histogram of the sum; 0 if it is unknown, or if a single execution needs none. */
static uint32_t join_histograms(struct profile *profile, uint32_t index,
				const struct profile_kernel *from, const uint32_t *buckets)
{
	const struct profile_kernel *kernel = &profile->kernels[index];
	uint32_t histogram = kernel->histogram;

	if (kernel->count == 0 && !buckets)
		return 0;
	if (!is_distribution_known(kernel, histogram) || !is_distribution_known(from, buckets))
		return 0;
	if (!histogram) {
		histogram = profile_histogram(profile);
		if (!histogram)
			return 0;
		add_durations(profile->histograms[histogram].bucket, kernel, NULL);
	}
	add_durations(profile->histograms[histogram].bucket, from, buckets);
	return histogram;
}

void profile_kernel_add(struct profile *profile, uint32_t index, const struct profile_kernel *from,
			const uint32_t *buckets)
{
	uint32_t histogram = join_histograms(profile, index, from, buckets);
	struct profile_kernel *kernel = &profile->kernels[index];
	bool is_first = kernel->count == 0;

	kernel->histogram = histogram;
	kernel->count = clamped_u64(kernel->count, from->count);
	kernel->total_ns = clamped_u64(kernel->total_ns, from->total_ns);
	/*
	 * "Unknown" is the largest number: it wins as a maximum, and has to win as a minimum too.
	 */
	if (is_first || from->min_ns == KERNEL_TIME_UNKNOWN ||
	    (kernel->min_ns != KERNEL_TIME_UNKNOWN && from->min_ns < kernel->min_ns))
		kernel->min_ns = from->min_ns;
	if (is_first || from->max_ns > kernel->max_ns)
		kernel->max_ns = from->max_ns;
}

bool profile_is_scope(const struct profile *profile, uint32_t node, const char *name)
{
	const struct row_frame *frame = &profile->frames[profile->nodes[node].frame];

	return frame->kind == FRAME_NAME && strcmp(profile_text(profile, frame->name), name) == 0;
}
