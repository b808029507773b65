/* Launch callbacks: context, correlation and their sampled cost. */
#include "backend/gpu/launches.h"

#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/tensors.h"

_Thread_local struct launches_here launches_here;

static _Atomic uint64_t launched;
static _Atomic uint64_t cost_ns;
static _Atomic uint64_t clock_cost_ns;
static _Atomic uint32_t last_shared;
static _Atomic uint32_t first_correlation; /* since the start; 0: none yet */
static _Atomic uint32_t last_skipped;      /* launches_skip(); 0: none yet */

uint64_t launches_count(void)
{
	return atomic_load_explicit(&launched, memory_order_relaxed);
}

uint32_t launches_last_shared(void)
{
	return atomic_load_explicit(&last_shared, memory_order_relaxed);
}

uint64_t launches_cost_ns(void)
{
	return atomic_load_explicit(&cost_ns, memory_order_relaxed);
}

bool launches_is_older(uint32_t correlation)
{
	uint32_t first = atomic_load_explicit(&first_correlation, memory_order_relaxed);
	uint32_t skipped = atomic_load_explicit(&last_skipped, memory_order_relaxed);

	return !first || (int32_t)(correlation - first) < 0 ||
	       (skipped && (int32_t)(correlation - skipped) <= 0);
}

void launches_skip(uint32_t correlation)
{
	uint32_t before = atomic_load_explicit(&last_skipped, memory_order_relaxed);

	while ((!before || (int32_t)(correlation - before) > 0) &&
	       !atomic_compare_exchange_weak(&last_skipped, &before, correlation))
		;
}

static void note_first(uint32_t correlation)
{
	uint32_t none = 0;

	if (!atomic_load_explicit(&first_correlation, memory_order_relaxed))
		atomic_compare_exchange_strong(&first_correlation, &none, correlation);
}

struct proton_context launches_begin(const struct launch_call *call)
{
	struct correlation correlation = {
		.is_shared = call->records == LAUNCH_MANY,
		.is_named = call->kind == LAUNCH_KERNEL && record_is_in_op(),
	};

	if (!record_is_own_work())
		correlation.where = proton_context_here();
	if (call->kernel && record_is_observed())
		record_observe_launch(correlation.where, call->kernel);
	note_first(call->correlation);
	correlation.launch = record_launch_begin(correlation.where, call->correlation, call->kind);
	correlate_put(call->correlation, &correlation);
	launches_here.is_wanted = call->records == LAUNCH_ONE &&
				  !proton_context_is_empty(correlation.where);
	launches_here.is_captured = false;
	launches_here.is_open = true;
	if (call->records != LAUNCH_ONE)
		atomic_store_explicit(&last_shared, call->correlation, memory_order_relaxed);
	if (call->kind == LAUNCH_GRAPH)
		tensors_relieve();
	return correlation.where;
}

void launches_add(uint32_t correlation)
{
	struct correlation added = {.where = {.sessions = 0}};

	if (!record_is_own_work())
		added.where = proton_context_here();
	note_first(correlation);
	correlate_put(correlation, &added);
	if (!proton_context_is_empty(added.where))
		atomic_fetch_add_explicit(&launched, 1, memory_order_relaxed);
}

void launches_doubt(const struct launch_call *call)
{
	struct correlation correlation;

	if (!launches_here.is_wanted || !correlate_take(call->correlation, &correlation))
		return; /* its record has arrived */
	launches_here.is_wanted = false;
	correlation.is_shared = true;
	correlate_put(call->correlation, &correlation);
	atomic_store_explicit(&last_shared, call->correlation, memory_order_relaxed);
}

void launches_end(const struct launch_call *call, bool has_failed)
{
	struct correlation unused;

	record_launch_end();
	if (call->kind != LAUNCH_GRAPH && (launches_here.is_captured || has_failed))
		correlate_take(call->correlation, &unused);
	else if (launches_here.is_wanted)
		atomic_fetch_add_explicit(&launched, 1, memory_order_relaxed);
	launches_here.is_wanted = false;
	launches_here.is_open = false;
	if (call->kind == LAUNCH_GRAPH)
		captured_nodes_flush_if_due();
}

void launches_add_cost(struct launches_timer timer)
{
	uint64_t spent_ns = clock_monotonic_ns() - timer.start_ns;
	uint64_t clock_ns = atomic_load_explicit(&clock_cost_ns, memory_order_relaxed);

	spent_ns -= spent_ns < clock_ns ? spent_ns : clock_ns;
	atomic_fetch_add_explicit(&cost_ns, spent_ns * timer.weight, memory_order_relaxed);
}

/* The difference of two consecutive clock reads. */
static uint64_t measure_clock(void)
{
	uint64_t min = UINT64_MAX;

	for (int i = 0; i < 64; i++) {
		uint64_t start_ns = clock_monotonic_ns();
		uint64_t spent_ns = clock_monotonic_ns() - start_ns;

		min = spent_ns < min ? spent_ns : min;
	}
	return min;
}

void launches_start(void)
{
	clock_cost_ns = measure_clock();
	atomic_store(&cost_ns, 0);
}

void launches_stop(void)
{
	atomic_store(&launched, 0);
	atomic_store(&last_shared, 0);
	atomic_store(&first_correlation, 0);
}

void launches_clear(void)
{
	correlate_clear();
	captured_nodes_clear();
	tensors_stop();
}
