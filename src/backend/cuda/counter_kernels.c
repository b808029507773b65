/*
 * Distinct kernels and their counters.
 *
 * The first launch is never measured, because measured launches have no time in the profile. The
 * next ones are, in the first set. A kernel without tensor operations there gets one launch in each
 * other set, until one has some. Later, rare launches are measured again.
 */
#include "backend/cuda/counter_kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mutex.h"
#include "record/record.h"

#define KERNELS_MAX 16384u
#define FIRST_SAMPLES 3u
#define ATTEMPTS_MAX 24u /* per kernel, in the first round */
#define REPEAT_MIN 1000u /* launches; then after ten times as many */

struct kernel {
	_Atomic uint32_t launches;
	_Atomic uint32_t repeat_at;  /* launches; UINT32_MAX: while the first round lasts */
	_Atomic uint32_t set;        /* wanted */
	_Atomic int32_t left;        /* launches to be measured in it */
	uint32_t attempts;           /* guarded by the lock, as the following */
	uint32_t samples;            /* in the first set */
	double sums[COUNTER_VALUES]; /* over them */
	double rest[COUNTER_VALUES]; /* from one launch in each other set */
};

/* Launches at a place, for which the values are added at the next flush. */
struct waiting {
	uint64_t key;
	struct proton_context where;
	uint32_t kernel;
	uint64_t count;
};

static const char *const metric_names[COUNTER_VALUES] = {
	[COUNTER_FLOPS4] = "counter_flops4",   [COUNTER_FLOPS8] = "counter_flops8",
	[COUNTER_FLOPS16] = "counter_flops16", [COUNTER_FLOPS32] = "counter_flops32",
	[COUNTER_FLOPS64] = "counter_flops64", [COUNTER_TENSOR] = "counter_tensor_flops",
	[COUNTER_BYTES] = "counter_bytes",     [COUNTER_L2_BYTES] = "counter_l2_bytes",
	[COUNTER_WARPS] = "counter_warps",
};

static const struct kernel fresh = {.left = FIRST_SAMPLES, .repeat_at = UINT32_MAX};

static struct map by_key; /* number of a kernel */
static struct kernel *kernels[KERNELS_MAX + 1];
static _Atomic uint32_t kernel_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards them, and the following */
static uint32_t measured;
static struct map waiting_by_key; /* index + 1 */
static struct waiting *waiting;
static size_t waiting_count;
static size_t waiting_capacity;

static uint64_t key_of(const struct counter_launch *launch)
{
	uint64_t key = hash_u64((uintptr_t)launch->function) ^ (uintptr_t)launch->name;

	for (size_t i = 0; i < ARRAY_LENGTH(launch->sizes); i++)
		key = hash_u64(key ^ launch->sizes[i]);
	return key | 1; /* a map has no key 0 */
}

static uint32_t add_kernel(uint64_t key)
{
	MUTEX_HOLD(&lock);
	uint32_t number = map_find(&by_key, key);
	uint32_t next = atomic_load(&kernel_count) + 1;

	if (number || next > KERNELS_MAX)
		return number;
	if (!kernels[next])
		kernels[next] = calloc(1, sizeof(*kernels[next]));
	if (!kernels[next])
		return 0;
	*kernels[next] = fresh;
	if (!map_insert(&by_key, key, next))
		return 0;
	atomic_store(&kernel_count, next);
	return next;
}

uint32_t counter_kernels_find(const struct counter_launch *launch)
{
	uint64_t key = key_of(launch);
	uint32_t number = map_find(&by_key, key);

	if (!number)
		number = add_kernel(key);
	if (number)
		atomic_fetch_add_explicit(&kernels[number]->launches, 1, memory_order_relaxed);
	return number;
}

uint32_t counter_kernels_wanted(uint32_t number)
{
	struct kernel *kernel = kernels[number];
	uint32_t launches = atomic_load_explicit(&kernel->launches, memory_order_relaxed);

	if (atomic_load_explicit(&kernel->left, memory_order_relaxed) > 0)
		return launches > 1 ? atomic_load(&kernel->set) : COUNTER_NO_SET;
	return launches >= atomic_load_explicit(&kernel->repeat_at, memory_order_relaxed)
		       ? 0
		       : COUNTER_NO_SET;
}

/* Not before ten times as many launches. */
static void set_repeat(struct kernel *kernel)
{
	uint32_t launches = atomic_load(&kernel->launches);
	uint64_t next = launches < REPEAT_MIN / 10 ? REPEAT_MIN : 10ull * launches;

	atomic_store(&kernel->repeat_at, next < UINT32_MAX ? (uint32_t)next : UINT32_MAX);
}

void counter_kernels_note_range(uint32_t number)
{
	struct kernel *kernel = kernels[number];
	MUTEX_HOLD(&lock);

	kernel->attempts++;
	if (atomic_load(&kernel->left) > 0)
		atomic_fetch_sub(&kernel->left, 1);
	else
		set_repeat(kernel);
}

static void want_set(struct kernel *kernel, uint32_t set, int32_t count)
{
	if (kernel->attempts >= ATTEMPTS_MAX)
		count = 0;
	atomic_store(&kernel->set, set);
	atomic_store(&kernel->left, count);
	if (!count)
		set_repeat(kernel);
}

/* The set that a kernel needs after `set`; the number of sets: none. */
static uint32_t next_set(const struct counter_sets *sets, uint32_t set, const double *values)
{
	uint32_t count = (uint32_t)sets->count;

	if (values[COUNTER_TENSOR] > 0 || set + 1 >= count)
		return count;
	return set == 1 && sets->has_pipe && values[COUNTER_PIPE] == 0 ? count - 1 : set + 1;
}

static void add_values(struct kernel *kernel, const struct counter_sets *sets, uint32_t set,
		       const double values[COUNTER_VALUES])
{
	bool is_first_round = atomic_load(&kernel->repeat_at) == UINT32_MAX;
	double *into = set ? kernel->rest : kernel->sums;
	uint32_t next;

	if (set && !is_first_round)
		return;
	for (size_t i = 0; i < COUNTER_VALUES; i++)
		into[i] += values[i];
	kernel->samples += !set;
	if (!is_first_round || (!set && kernel->samples < FIRST_SAMPLES))
		return;
	measured += !set;
	next = next_set(sets, set, set ? values : kernel->sums);
	want_set(kernel, next == sets->count ? 0 : next, next < sets->count);
}

static struct proton_metric make_number(const char *name, double value)
{
	return (struct proton_metric){
		.name = name, .type = PROTON_METRIC_DOUBLE, .value = {.float64 = value}};
}

void counter_kernels_add(uint32_t kernel, const struct counter_sets *sets, uint32_t set,
			 const double values[COUNTER_VALUES], struct proton_context where)
{
	const struct proton_metric sample = make_number("counter_samples", 1);

	pthread_mutex_lock(&lock);
	add_values(kernels[kernel], sets, set, values);
	pthread_mutex_unlock(&lock);
	proton_metrics_add(where, &sample, 1, NULL);
}

void counter_kernels_lose(uint32_t number, uint32_t set)
{
	struct kernel *kernel = kernels[number];
	MUTEX_HOLD(&lock);

	if (atomic_load(&kernel->repeat_at) == UINT32_MAX && atomic_load(&kernel->set) == set)
		want_set(kernel, set, atomic_load(&kernel->left) + 1);
}

/* ------------------------------------------------------------------ other launches */

void counter_kernels_note_launch(uint32_t kernel, struct proton_context where)
{
	uint64_t key = hash_u64(((uint64_t)where.shadow << 32 | where.source) ^
				hash_u64((uint64_t)where.sessions << 32 | kernel)) |
		       1;
	MUTEX_HOLD(&lock);
	uint32_t at = map_find(&waiting_by_key, key);

	if (!at &&
	    array_reserve(&waiting, &waiting_capacity, waiting_count + 1, sizeof(*waiting)) &&
	    map_insert(&waiting_by_key, key, (uint32_t)waiting_count + 1)) {
		waiting[waiting_count] = (struct waiting){key, where, kernel, 0};
		at = (uint32_t)++waiting_count;
	}
	if (at)
		waiting[at - 1].count++;
}

static void add_launches(const struct waiting *one, const struct kernel *kernel)
{
	bool is_partial = atomic_load(&kernel->repeat_at) == UINT32_MAX &&
			  kernel->sums[COUNTER_TENSOR] == 0;
	struct proton_metric metrics[COUNTER_VALUES + 2];
	size_t count = 0;

	for (size_t i = 0; i < COUNTER_VALUES; i++) {
		double value = kernel->sums[i] / kernel->samples + kernel->rest[i];

		if (metric_names[i] && value > 0)
			metrics[count++] = make_number(metric_names[i], value * (double)one->count);
	}
	metrics[count++] = make_number("counter_launches", (double)one->count);
	if (is_partial) /* their operations are not known yet */
		metrics[count++] = make_number("counter_partial_launches", (double)one->count);
	proton_metrics_add(one->where, metrics, count, NULL);
}

/* The entry, with its kernel; false: it is empty. It is empty afterwards. */
static bool take_waiting(size_t index, struct waiting *out, struct kernel *kernel_out)
{
	MUTEX_HOLD(&lock);

	if (index >= waiting_count || !waiting[index].count)
		return false;
	*out = waiting[index];
	*kernel_out = *kernels[out->kernel];
	waiting[index].count = 0;
	return true;
}

void counter_kernels_flush(void)
{
	uint64_t unknown = 0;
	struct kernel kernel;
	struct waiting one;
	size_t count;

	pthread_mutex_lock(&lock);
	count = waiting_count;
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < count; i++) {
		if (!take_waiting(i, &one, &kernel))
			continue;
		if (kernel.samples)
			add_launches(&one, &kernel);
		else
			unknown += one.count;
	}
	if (unknown)
		record_count(COUNTER_UNMEASURED, unknown);
}

uint32_t counter_kernels_count(void)
{
	return atomic_load(&kernel_count);
}

uint32_t counter_kernels_measured(void)
{
	MUTEX_HOLD(&lock);
	return measured;
}

void counter_kernels_clear(void)
{
	MUTEX_HOLD(&lock);

	/* Their numbers stay: a callback may be reading the map. */
	for (uint32_t i = 1; i <= atomic_load(&kernel_count); i++)
		*kernels[i] = fresh;
	for (size_t i = 0; i < waiting_count; i++)
		map_remove(&waiting_by_key, waiting[i].key);
	measured = 0;
	waiting_count = 0;
}
