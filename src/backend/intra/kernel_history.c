/* Running totals by kernel and context: a table, adding launches, and reporting to the profile. */
#include "backend/intra/kernel_history.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "model/warp_metrics.h"
#include "record/store/devices.h"

#define BUCKETS 1024u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects only the table */
static struct kernel_history *buckets[BUCKETS];

/* ------------------------------------------------------------------ table */

static void free_history(struct kernel_history *history)
{
	launch_totals_fini(&history->sum);
	free(history->frames);
	pthread_mutex_destroy(&history->lock);
	free(history);
}

/* Makes the kernel's node. */
static struct kernel_history *make_history(const struct kernel *kernel, struct proton_context where)
{
	struct kernel_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->where = where;
	pthread_mutex_init(&history->lock, NULL);
	if (!launch_totals_begin(&history->sum, kernel, where)) {
		free_history(history);
		return NULL;
	}
	/* Each set has other scopes; roles are found by the scopes of the first. */
	if (kernel->variant <= LOOP_FIRST)
		role_totals_init(&history->roles, &kernel->layout, where);
	return history;
}

struct kernel_history *kernel_history_of(const struct kernel *kernel, struct proton_context where)
{
	uint64_t hash = hash_u64((uintptr_t)kernel ^ hash_bytes(&where, sizeof(where)));
	struct kernel_history **bucket = &buckets[hash % BUCKETS];
	struct kernel_history *history;

	MUTEX_HOLD(&lock);
	for (history = *bucket; history; history = history->next)
		if (history->sum.kernel == kernel &&
		    !memcmp(&history->where, &where, sizeof(where)))
			break;
	if (!history && (history = make_history(kernel, where)) != NULL) {
		history->next = *bucket;
		*bucket = history;
	}
	return history;
}

void kernel_history_clear(void)
{
	MUTEX_HOLD(&lock);
	for (uint32_t i = 0; i < BUCKETS; i++) {
		while (buckets[i]) {
			struct kernel_history *history = buckets[i];

			buckets[i] = history->next;
			free_history(history);
		}
	}
}

void kernel_history_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	memset(buckets, 0, sizeof(buckets)); /* may be inconsistent */
}

/* ------------------------------------------------------------------ reporting */

static uint64_t percentile(const struct launch_node *node, double share)
{
	uint64_t wanted = (uint64_t)((double)node->count * share);
	uint64_t seen = 0;

	for (uint32_t i = 0; node->histogram && i < CYCLE_BUCKETS; i++) {
		seen += node->histogram[i];
		if (seen > wanted) {
			uint64_t cycles = cycle_bucket_middle(i);

			return cycles < node->min   ? node->min
			       : cycles > node->max ? node->max
						    : cycles;
		}
	}
	return node->max;
}

/*
 * All exclusive or properties: the cycles of a scope include its inner scopes, so nothing may be
 * summed towards the root.
 */
#define SCOPE_METRICS(X)                                                                           \
	X(CYCLES, "cycles (exc)", INT64)                                                           \
	X(NORMALIZED, "normalized_cycles (exc)", DOUBLE)                                           \
	X(EXECUTIONS, "executions (exc)", INT64)                                                   \
	X(PARTIAL, SCOPE_PARTIAL_EXECUTIONS " (exc)", INT64)                                       \
	X(PER_WARP, "executions_per_warp (pty)", DOUBLE)                                           \
	X(MIN, "min_cycles (pty)", INT64)                                                          \
	X(MEAN, "mean_cycles (pty)", DOUBLE)                                                       \
	X(P99, "p99_cycles (pty)", INT64)                                                          \
	X(MAX, "max_cycles (pty)", INT64)                                                          \
	X(DEVICE_ID, "device_id (pty)", STRING)                                                    \
	X(DEVICE_TYPE, "device_type (pty)", STRING)

#define NUMBER_OF(number, text, kind) number,
enum {
	SCOPE_METRICS(NUMBER_OF) METRICS
};
#undef NUMBER_OF

#define METRIC_OF(number, text, kind) {.name = text, .type = PROTON_METRIC_##kind},
static struct proton_metric metrics[METRICS] = {SCOPE_METRICS(METRIC_OF)};
#undef METRIC_OF

static void look_up_names(void)
{
	for (int i = 0; i < METRICS; i++)
		metrics[i].name_id = proton_metric_name(metrics[i].name);
}

/* Metrics of one scope. */
struct node_metrics {
	struct proton_metric values[METRICS];
	size_t count;
};

static struct proton_metric *next_metric(struct node_metrics *list, int metric)
{
	struct proton_metric *value = &list->values[list->count++];

	*value = metrics[metric];
	return value;
}

static void put_int64(struct node_metrics *list, int metric, uint64_t value)
{
	next_metric(list, metric)->value.int64 = (int64_t)value;
}

static void put_double(struct node_metrics *list, int metric, double value)
{
	next_metric(list, metric)->value.float64 = value;
}

/* Reports `new`, which `sum` already includes. */
static void report_scope(const struct kernel_history *history, const struct launch_node *sum,
			 const struct launch_node *new, uint64_t units, uint64_t weight,
			 const struct device *device)
{
	uint64_t cycles = weight * (new->cycles + new->partial_cycles);
	struct node_metrics list = {.count = 0};
	char device_id[12];

	put_int64(&list, CYCLES, cycles);
	put_double(&list, NORMALIZED, (double)cycles / (double)units);
	put_int64(&list, EXECUTIONS, weight * (new->count + new->partial));
	if (new->partial)
		put_int64(&list, PARTIAL, weight * new->partial);
	put_double(&list, PER_WARP, (double)(sum->count + sum->partial) / (double)history->units);
	/* The duration of a partial execution is unknown. */
	if (sum->count)
		put_double(&list, MEAN, (double)sum->cycles / (double)sum->count);
	if (sum->count && !sum->unbounded) {
		put_int64(&list, MIN, sum->min);
		if (!sum->unsorted)
			put_int64(&list, P99, percentile(sum, 0.99));
		put_int64(&list, MAX, sum->max);
	}
	if (device) {
		snprintf(device_id, sizeof(device_id), "%u", device->id);
		next_metric(&list, DEVICE_ID)->value.string = device_id;
		next_metric(&list, DEVICE_TYPE)->value.string = device->type;
	}
	proton_metrics_add(sum->where, list.values, list.count, NULL);
}

/* ------------------------------------------------------------------ adding a launch */

/* Reports a text about a kernel at its node. */
static void add_text(struct proton_context where, const char *name, const char *text)
{
	struct proton_metric metric = {
		.name = name,
		.type = PROTON_METRIC_STRING,
		.value.string = text,
	};

	proton_metrics_add(where, &metric, 1, NULL);
}

/* At the first launch: a frame for each scope, and the compiler's warning. */
static bool begin_frames(struct kernel_history *history)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct instrument_layout *layout = &history->sum.kernel->layout;

	pthread_once(&once, look_up_names);
	history->frames = calloc(layout->scope_count + 1, sizeof(*history->frames));
	if (!history->frames)
		return false;
	for (uint32_t i = 0; i < layout->scope_count; i++)
		history->frames[i] = proton_frame(layout->scopes[i], strlen(layout->scopes[i]));
	if (layout->warning)
		add_text(history->where, SCOPE_WARNING " (pty)", layout->warning);
	return true;
}

static void add_total(struct launch_node *sum, const struct launch_node *node)
{
	uint32_t last = cycle_bucket(node->max);

	sum->partial += node->partial;
	if (!node->count)
		return;
	sum->count += node->count;
	sum->cycles += node->cycles;
	sum->unbounded += node->unbounded;
	sum->unsorted += node->unsorted;
	if (node->min == UINT64_MAX)
		return;
	if (node->min < sum->min)
		sum->min = node->min;
	if (node->max > sum->max)
		sum->max = node->max;
	for (uint32_t i = cycle_bucket(node->min); i <= last; i++)
		sum->histogram[i] += node->histogram[i];
}

/* The child of node `parent` for `scope`, with its context. */
static uint32_t child_of(struct kernel_history *history, uint32_t parent, uint32_t scope)
{
	uint32_t count = history->sum.node_count;
	uint32_t at = launch_totals_child(&history->sum, parent, scope);
	struct launch_node *nodes = history->sum.nodes;

	if (history->sum.node_count > count)
		nodes[at].where = proton_context_enter(nodes[parent].where, history->frames[scope]);
	return at;
}

bool kernel_history_add(struct kernel_history *history, struct launch_totals *launch,
			uint64_t units, uint64_t weight, const struct device *device)
{
	if (!history->frames && !begin_frames(history))
		return false;
	/* Of each node: its index in the sum. */
	AUTO_FREE uint32_t *index_of = calloc(launch->node_count, sizeof(*index_of));
	if (!index_of)
		return false;
	history->units += units;
	for (uint32_t i = 1; i < launch->node_count; i++) {
		struct launch_node *node = &launch->nodes[i];
		uint32_t parent = index_of[node->parent];
		uint32_t at = child_of(history, parent, node->scope);
		struct launch_node *sum = &history->sum.nodes[at];

		index_of[i] = at;
		node->where = sum->where;
		if (!(node->count + node->partial) || at == parent)
			continue;
		add_total(sum, node);
		report_scope(history, sum, node, units, weight, device);
	}
	return true;
}

/* ------------------------------------------------------------------ prices */

/* Their names have a place in the source. */
static bool has_automatic_scope(const struct instrument_layout *layout)
{
	for (uint32_t i = 0; i < layout->scope_count; i++)
		if (strchr(layout->scopes[i], '@'))
			return true;
	return false;
}

static void report_price(const struct kernel_history *history, struct loop *loop)
{
	struct loop_price price = {.is_measured = false};
	AT_END(out_fini) struct out text;

	if (loop)
		closed_loop_price(loop, &price);
	if (price.is_measured) {
		struct proton_metric ratio = {
			.name = SCOPE_RATIO " (pty)",
			.type = PROTON_METRIC_DOUBLE,
			.value.float64 = 1 + price.percent / 100,
		};

		proton_metrics_add(history->where, &ratio, 1, NULL);
	}
	out_init(&text, -1);
	closed_loop_write(loop, &text);
	out_byte(&text, '\0');
	if (!text.errnum)
		add_text(history->where, SCOPE_PRICE " (pty)", text.bytes);
}

void kernel_history_report_prices(void)
{
	MUTEX_HOLD(&lock);
	for (uint32_t i = 0; i < BUCKETS; i++) {
		for (struct kernel_history *at = buckets[i]; at; at = at->next) {
			const struct kernel *kernel = at->sum.kernel;

			if (has_automatic_scope(&kernel->layout))
				report_price(at, atomic_load(&kernel->loop));
		}
	}
}
