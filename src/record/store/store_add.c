/* Adding to existing values and kernels, without the session's lock (record/thread/adding.h). */

#include "model/clamped.h"
#include "record/store/store_rows.h"

static void count_duration(struct row_histogram *histogram, uint64_t duration_ns, bool is_shared)
{
	uint32_t *bucket = &histogram->bucket[histogram_bucket(duration_ns)];
	uint32_t count = __atomic_load_n(bucket, __ATOMIC_RELAXED);

	if (!is_shared) {
		__atomic_store_n(bucket, count + (count != UINT32_MAX), __ATOMIC_RELAXED);
		return;
	}
	while (count != UINT32_MAX &&
	       !__atomic_compare_exchange_n(bucket, &count, count + 1, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

/* Sets *extreme to `value` if that is lower (is_min) or higher. */
static void take_extreme(uint64_t *extreme, uint64_t value, bool is_min, bool is_shared)
{
	uint64_t now = __atomic_load_n(extreme, __ATOMIC_RELAXED);

	while (is_min ? value < now : value > now) {
		if (!is_shared) {
			__atomic_store_n(extreme, value, __ATOMIC_RELAXED);
			return;
		}
		if (__atomic_compare_exchange_n(extreme, &now, value, true, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return;
	}
}

/* Makes the histogram of a row with one execution; under the session's lock. */
static void make_histogram(struct store *store, struct row_kernel *row)
{
	uint32_t histogram = store_new_row(store, TABLE_HISTOGRAMS);

	if (!histogram)
		return;
	count_duration(&store_histogram_rows(store)[histogram], row->min_ns, false);
	store_commit(store, TABLE_HISTOGRAMS);
	/* release: a thread without the lock finds the histogram filled */
	__atomic_store_n(&row->histogram, histogram, __ATOMIC_RELEASE);
}

static void add_duration(const struct store *store, struct row_kernel *row, uint64_t duration_ns,
			 bool is_shared)
{
	uint32_t histogram = __atomic_load_n(&row->histogram, __ATOMIC_ACQUIRE);

	if (histogram)
		count_duration(&store_histogram_rows(store)[histogram], duration_ns, is_shared);
	take_extreme(&row->min_ns, duration_ns, true, is_shared);
	take_extreme(&row->max_ns, duration_ns, false, is_shared);
	store_add_u64(&row->total_ns, duration_ns, is_shared);
	store_add_u64(&row->count, 1, is_shared);
}

void store_add_execution(struct store *store, uint32_t kernel, uint64_t duration_ns)
{
	struct row_kernel *row = &store_kernel_rows(store)[kernel];
	uint64_t count = __atomic_load_n(&row->count, __ATOMIC_RELAXED);

	if (count == 0) /* without the lock no thread adds before there is a histogram */
		__atomic_store_n(&row->min_ns, duration_ns, __ATOMIC_RELAXED);
	else if (count == 1 && !row->histogram)
		make_histogram(store, row);
	add_duration(store, row, duration_ns, store->is_shared);
}

/* True if data of `epoch` can be added; rejected data is counted under the lock. */
static bool is_open(const struct store *store, uint32_t epoch)
{
	return !(__atomic_load_n(&store_epoch_rows(store)[epoch].flags, __ATOMIC_RELAXED) &
		 (EPOCH_CLEARED | EPOCH_CLOSED));
}

bool store_add_kernel(const struct store *store, uint32_t context, uint32_t epoch,
		      const struct execution *execution, bool is_shared, uint32_t stripe)
{
	uint32_t device =
		execution->device < DEVICE_MAX
			? __atomic_load_n(&store->device_rows[execution->device], __ATOMIC_ACQUIRE)
			: 0;
	uint32_t node = store_find_node(store, context);
	uint64_t duration_ns = execution->end_ns - execution->start_ns;

	if (!device || (!node && context != PROTON_CONTEXT_ROOT) || !is_open(store, epoch) ||
	    execution->end_ns < execution->start_ns || execution->is_memory ||
	    execution->function || (store->trace_serial && !execution->is_of_host) ||
	    store_collectives_has(store, node))
		return false;
	uint32_t at = store_lists_find(store, LIST_KERNELS, node, device - 1, epoch);
	struct row_kernel *row = &store_kernel_rows(store)[at];
	if (!at || !__atomic_load_n(&row->histogram, __ATOMIC_ACQUIRE) ||
	    !store_config_add(store, at, &execution->config, duration_ns, is_shared))
		return false;
	add_duration(store, row, duration_ns, is_shared);
	store_counters_add_one(store, COUNTER_KERNELS, is_shared, stripe);
	return true;
}

/* ------------------------------------------------------------------ metrics */

static bool add_int64(int64_t *sum, int64_t more, bool is_shared)
{
	int64_t now = __atomic_load_n(sum, __ATOMIC_RELAXED);
	int64_t next;

	do {
		if (__builtin_add_overflow(now, more, &next))
			return false;
		if (!is_shared) {
			__atomic_store_n(sum, next, __ATOMIC_RELAXED);
			return true;
		}
	} while (!__atomic_compare_exchange_n(sum, &now, next, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

static void add_double(double *sum, double more, bool is_shared)
{
	double now, next;

	__atomic_load(sum, &now, __ATOMIC_RELAXED);
	do {
		next = now + more;
		if (!is_shared) {
			__atomic_store(sum, &next, __ATOMIC_RELAXED);
			return;
		}
	} while (!__atomic_compare_exchange(sum, &now, &next, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
}

bool store_add_number(struct row_value *value, const struct proton_metric *metric, bool is_replaced,
		      bool is_shared)
{
	if (!is_replaced && metric->type == PROTON_METRIC_INT64)
		return add_int64(&value->as.int64, metric->value.int64, is_shared);
	if (is_replaced) /* int64 and double are both words */
		__atomic_store_n(&value->as.int64, metric->value.int64, __ATOMIC_RELAXED);
	else
		add_double(&value->as.float64, metric->value.float64, is_shared);
	return true;
}

uint32_t store_add_metric(const struct store *store, uint32_t context, uint32_t epoch,
			  uint32_t name, const struct proton_metric *metric, bool is_shared,
			  uint32_t stripe)
{
	const struct row_metric *metrics = store_metric_rows(store);
	const uint32_t *known = store_map_at(&store->metric_of_name, name);
	uint32_t row = known ? __atomic_load_n(known, __ATOMIC_ACQUIRE) : 0;
	uint32_t node = store_find_node(store, context);

	if (!row || (!node && context != PROTON_CONTEXT_ROOT) || !is_open(store, epoch) ||
	    metrics[--row].type != (uint16_t)metric->type ||
	    (metric->type != PROTON_METRIC_INT64 && metric->type != PROTON_METRIC_DOUBLE))
		return 0;
	uint32_t at = store_lists_find(store, LIST_VALUES, node, row, epoch);
	if (!at || !store_add_number(&store_value_rows(store)[at], metric,
				     metrics[row].flags & METRIC_PROPERTY, is_shared))
		return 0; /* or clamped at its end, which is a loss */
	store_counters_add_one(store, COUNTER_METRICS, is_shared, stripe);
	return row + 1;
}
