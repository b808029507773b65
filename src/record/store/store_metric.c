/* Metric values of a session: finding a metric's row, and adding values of each type. */
#include <inttypes.h>

#include "model/clamped.h"
#include "record/names/frames.h"
#include "record/store/store_rows.h"

static const char *const type_names[] = {
	[PROTON_METRIC_INT64] = "an integer",
	[PROTON_METRIC_DOUBLE] = "a float",
	[PROTON_METRIC_STRING] = "a string",
	[PROTON_METRIC_INT64_VECTOR] = "a vector of integers",
	[PROTON_METRIC_DOUBLE_VECTOR] = "a vector of floats",
};

/* The row of metric `name` for `type`, perhaps new; UINT32_MAX: there is no space. */
static uint32_t metric_of(struct store *store, uint32_t name, uint16_t type)
{
	struct metric_name parsed = metric_names_get(name);
	struct row_metric *rows = store_metric_rows(store);
	uint64_t count = store->file.tables[TABLE_METRICS].rows;
	uint32_t *map = store->metric_of_name.base;
	uint16_t flags = (uint16_t)parsed.flags;
	uint64_t row = 0;
	bool is_known = false;

	if (!region_holds(&store->metric_of_name, (name + 1ull) * sizeof(*map)))
		return UINT32_MAX;
	if (map[name] && rows[map[name] - 1].type == type)
		return map[name] - 1;
	uint32_t text = store_string(store, parsed.text);
	if (!text && parsed.text)
		return UINT32_MAX;
	for (; row < count && !(rows[row].name == text && rows[row].type == type); row++) {
		if (rows[row].name == text && !is_known)
			flags = rows[row].flags; /* even with a different suffix */
		is_known = is_known || rows[row].name == text;
	}
	if (row == count) {
		if (!profile_file_append(&store->file, TABLE_METRICS, 1))
			return UINT32_MAX;
		rows[row] = (struct row_metric){.name = text, .type = type, .flags = flags};
		store_commit(store, TABLE_METRICS);
		store->has_mixed_types = store->has_mixed_types || is_known;
	}
	/* release: store_add_metric() finds the metric counted */
	__atomic_store_n(&map[name], (uint32_t)row + 1, __ATOMIC_RELEASE);
	return (uint32_t)row;
}

/* A value of `node` with the name of metric `row` and a different type; NULL if there is none. */
static const struct row_value *value_of_other_type(const struct store *store, uint32_t node,
						   uint32_t row, uint32_t epoch)
{
	const struct row_metric *metrics = store_metric_rows(store);
	const struct row_value *rows = store_value_rows(store);

	if (!store->has_mixed_types)
		return NULL;
	for (uint32_t at = store_node_rows(store)[node].first_value; at; at = rows[at].next)
		if (rows[at].epoch == epoch && rows[at].metric != METRIC_ENTERED &&
		    rows[at].metric != row && metrics[rows[at].metric].name == metrics[row].name)
			return &rows[at];
	return NULL;
}

/* A value keeps the type that it first had in its context. */
static int check_type(struct store *store, uint32_t node, uint32_t row, uint32_t epoch,
		      uint32_t name, struct proton_error *err)
{
	const struct row_metric *metrics = store_metric_rows(store);
	const struct row_value *other = value_of_other_type(store, node, row, epoch);
	uint32_t length;

	if (!other)
		return PROTON_OK;
	store_counters_add(store, COUNTER_LOST_TYPE, 1);
	return err_set(err, PROTON_E_TYPE,
		       "Metric value type mismatch for %s: %s after %s in the same context; use "
		       "one type per metric name",
		       frames_text(metric_names_get(name).text, &length),
		       type_names[metrics[row].type], type_names[metrics[other->metric].type]);
}

static bool is_vector(enum proton_metric_type type)
{
	return type == PROTON_METRIC_INT64_VECTOR || type == PROTON_METRIC_DOUBLE_VECTOR;
}

/* The list of free vectors of that length; NULL for empty ones, and above the number of lists. */
static struct free_vectors *free_vectors_of(struct store *store, uint64_t length)
{
	for (size_t i = 0; length && i < STORE_VECTOR_LENGTHS; i++) {
		struct free_vectors *at = &store->free_vectors[i];

		if (!at->length)
			at->length = length;
		if (at->length == length)
			return at;
	}
	return NULL;
}

void store_metric_drop_vector(struct store *store, const struct row_value *value)
{
	const struct row_metric *rows = store_metric_rows(store);
	uint64_t *words = profile_file_rows(&store->file, TABLE_VECTORS);

	if (value->metric == METRIC_ENTERED || !is_vector(rows[value->metric].type))
		return;
	struct free_vectors *unused = free_vectors_of(store, words[value->as.vector]);
	if (!unused)
		return;
	words[value->as.vector + 1] = unused->first;
	unused->first = value->as.vector + 1;
}

/* First word of a new vector of zeros. An empty vector still has its length. */
static bool new_vector(struct store *store, uint64_t length, uint64_t *first_out)
{
	struct free_vectors *unused = free_vectors_of(store, length);
	uint64_t first = store->file.tables[TABLE_VECTORS].rows;
	uint64_t *words;

	if (!length && store->empty_vector) {
		*first_out = store->empty_vector - 1;
		return true;
	}
	if (unused && unused->first) {
		words = profile_file_rows(&store->file, TABLE_VECTORS);
		first = unused->first - 1;
		unused->first = words[first + 1];
		memset(words + first + 1, 0, length * sizeof(*words));
		*first_out = first;
		return true;
	}
	words = profile_file_append(&store->file, TABLE_VECTORS, length + 1);
	if (!words)
		return false;
	words[0] = length;
	store_commit(store, TABLE_VECTORS);
	if (!length)
		store->empty_vector = first + 1;
	*first_out = first;
	return true;
}

static void add_vector(struct store *store, uint64_t *words, const struct proton_metric *metric,
		       bool replace)
{
	/* int64 and double are both words. */
	const uint64_t *from = (const void *)metric->value.int64s;

	if (replace) {
		if (metric->count)
			memcpy(words, from, metric->count * sizeof(*words));
		return;
	}
	uint64_t clamped = clamped_add_vector(words, from, metric->count,
					      metric->type == PROTON_METRIC_DOUBLE_VECTOR);
	if (clamped)
		store_counters_add(store, COUNTER_LOST_RANGE, clamped);
}

/* Without space for the text the value is unchanged. */
static void set_text(struct store *store, struct row_value *value, const char *given)
{
	uint32_t text = frames_value_text(given, strlen(given));
	uint32_t string = text == STRING_NONE ? 0 : store_string(store, text);

	if (string || !text)
		value->as.string = string;
	else
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
}

/* Adds `metric` to `value`, or replaces it. Their types are equal. */
static int combine(struct store *store, struct row_value *value, uint32_t row, uint32_t name,
		   const struct proton_metric *metric, struct proton_error *err)
{
	const struct row_metric *rows = store_metric_rows(store);
	uint64_t *words = profile_file_rows(&store->file, TABLE_VECTORS);
	bool replace = rows[row].flags & METRIC_PROPERTY;
	uint32_t length;

	switch (metric->type) {
	case PROTON_METRIC_INT64:
	case PROTON_METRIC_DOUBLE:
		if (!store_add_number(value, metric, replace, store->is_shared)) {
			__atomic_store_n(&value->as.int64,
					 metric->value.int64 < 0 ? INT64_MIN : INT64_MAX,
					 __ATOMIC_RELAXED);
			store_counters_add(store, COUNTER_LOST_RANGE, 1);
		}
		return PROTON_OK;
	case PROTON_METRIC_STRING:
		set_text(store, value, metric->value.string);
		return PROTON_OK;
	case PROTON_METRIC_INT64_VECTOR:
	case PROTON_METRIC_DOUBLE_VECTOR:
		if (words[value->as.vector] != metric->count) {
			store_counters_add(store, COUNTER_LOST_TYPE, 1);
			return err_set(err, PROTON_E_TYPE,
				       "Vector metric size mismatch for valueId %u (%s): "
				       "current=%" PRIu64 ", new=%u",
				       row, frames_text(metric_names_get(name).text, &length),
				       words[value->as.vector], metric->count);
		}
		add_vector(store, words + value->as.vector + 1, metric, replace);
		return PROTON_OK;
	}
	return PROTON_OK;
}

void store_metric_add_sample(struct store *store, uint32_t event, uint32_t name,
			     const struct proton_metric *metric)
{
	uint32_t row = metric_of(store, name, (uint16_t)metric->type);
	struct row_value value = {.metric = row};

	if (row == UINT32_MAX)
		return; /* counted when it was added to the node */
	if (is_vector(metric->type) && !new_vector(store, metric->count, &value.as.vector)) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return;
	}
	uint32_t at = combine(store, &value, row, name, metric, NULL) == PROTON_OK
			      ? store_event_rows_next(store, &store->own_samples, TABLE_SAMPLES)
			      : 0;
	if (at)
		store_event_link_sample(store, event, at, &value);
}

/* Adds to the value of a node, made if new. */
static int add_to_node(struct store *store, uint32_t node, uint32_t epoch, uint32_t name,
		       const struct proton_metric *metric, bool is_counted,
		       struct proton_error *err)
{
	uint32_t row = metric_of(store, name, (uint16_t)metric->type);
	struct row_value *rows = store_value_rows(store);
	uint64_t vector = 0;

	if (row == UINT32_MAX) {
		store_counters_add(store, COUNTER_LOST_STORAGE, 1);
		return PROTON_OK; /* warned once and counted, not an error of each call */
	}
	uint32_t at = store_lists_find(store, LIST_VALUES, node, row, epoch);
	if (!at) {
		TRY(check_type(store, node, row, epoch, name, err));
		if (is_vector(metric->type) && !new_vector(store, metric->count, &vector)) {
			store_counters_add(store, COUNTER_LOST_STORAGE, 1);
			return PROTON_OK;
		}
		at = store_lists_new(store, LIST_VALUES, row, epoch);
		if (!at)
			return PROTON_OK;
		if (is_vector(metric->type))
			rows[at].as.vector = vector;
		store_lists_link(store, LIST_VALUES, node, at);
	}
	if (is_counted)
		store_counters_add_one(store, COUNTER_METRICS, store->is_shared, store->stripe);
	return combine(store, &rows[at], row, name, metric, err);
}

void store_metric_add_doubles(struct store *store, uint32_t node, uint32_t epoch, uint32_t name,
			      const double *values, uint32_t count)
{
	struct proton_metric metric = {
		.type = PROTON_METRIC_DOUBLE_VECTOR, .count = count, .value.float64s = values};

	add_to_node(store, node, epoch, name, &metric, false, NULL);
}

int store_metric(struct store *store, uint32_t context, uint32_t epoch, uint32_t name,
		 const struct proton_metric *metric, struct proton_error *err)
{
	if (store_epoch_is_cleared(store, epoch))
		return PROTON_OK;
	uint32_t node = store_node(store, context, epoch);
	return node == NODE_NONE ? PROTON_OK
				 : add_to_node(store, node, epoch, name, metric, true, err);
}
