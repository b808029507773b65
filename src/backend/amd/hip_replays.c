/*
 * Replays of HIP graphs.
 *
 * Records of a replay carry the launch's correlation ID, and no node. They arrive in any order, and
 * wait here until all are known. Then the i-th kernel is the i-th captured one. A different number
 * means that no kernel can be trusted to be the captured one: the graph was changed by hand, or a
 * record is lost. The kernels are then shown by name; the captured metrics are added all the same,
 * once per replay, because HIP runs every node of a graph.
 */

#include <unistd.h>

#include "backend/amd/hip_graphs.h"
#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/records.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/mutex.h"
#include "record/record.h"

#define UNKNOWN UINT32_MAX
#define PATIENCE_NS 100000000ull
#define REPLAYS_MAX 4096u /* that wait; then the older ones are added */

struct held {
	uint64_t order;
	struct execution execution;
};

struct replay {
	uint32_t correlation;
	uint32_t expected; /* records; UNKNOWN */
	bool has_returned;
	bool is_done; /* its records have been added; stays to find records too many */
	bool has_launch;
	struct trace_event launch;
	struct proton_context where;
	const struct hip_plan *plan;
	struct held *held;
	size_t count;
	size_t kernels; /* of `held` */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct replay *replays;                           /* sorted by correlation */
static size_t replay_count;

static _Atomic enum hip_replays_mode mode;
static _Atomic bool has_memory; /* their records are enabled */
static _Atomic bool mismatch_was_noted;

/* The launch in progress on this thread. */
static _Thread_local struct {
	const struct hip_plan *plan; /* NULL: none */
	struct proton_context where;
	uint64_t start_ns;
	uint32_t correlation;
	bool is_open; /* work gets a number */
	uint32_t numbers;
} here;

void hip_replays_set_memory(bool is_recorded)
{
	atomic_store_explicit(&has_memory, is_recorded, memory_order_relaxed);
}

void hip_replays_start(enum hip_replays_mode wanted)
{
	atomic_store_explicit(&mode, wanted, memory_order_relaxed);
	atomic_store_explicit(&mismatch_was_noted, false, memory_order_relaxed);
}

static enum hip_replays_mode current_mode(void)
{
	return atomic_load_explicit(&mode, memory_order_relaxed);
}

/* ------------------------------------------------------------------ the table */

static size_t replay_index(uint32_t correlation)
{
	return ARRAY_COUNT_BEFORE(replay_count, i, replays[i].correlation < correlation);
}

static struct replay *find_replay(uint32_t correlation)
{
	size_t index = replay_index(correlation);

	return index < replay_count && replays[index].correlation == correlation ? &replays[index]
										 : NULL;
}

/* Takes the plan's reference over. */
static void add_replay(uint32_t correlation, const struct hip_plan *plan,
		       struct proton_context where)
{
	const struct replay replay = {
		.correlation = correlation, .expected = UNKNOWN, .where = where, .plan = plan};

	pthread_mutex_lock(&lock);
	size_t index = replay_index(correlation);
	/* Nothing arrives any more: a record of more replays is shown by name. */
	bool has_room = replay_count < 2 * REPLAYS_MAX &&
			ARRAY_INSERT(replays, replay_count, index, replay);
	pthread_mutex_unlock(&lock);
	if (!has_room)
		hip_graphs_release(plan);
}

/* Moves the replay at `index` out of the table; the caller has to free it. */
static struct replay take_replay(size_t index)
{
	struct replay replay = replays[index];

	ARRAY_REMOVE(replays, replay_count, index);
	return replay;
}

/* ------------------------------------------------------------------ adding */

ARRAY_ORDER(by_order, struct held, ORDER_OF(a->order, b->order))

static void note_mismatch(size_t kernels)
{
	record_count(COUNTER_GRAPH_BY_NAME, kernels);
	if (!atomic_exchange(&mismatch_was_noted, true))
		message("HIP ran another number of kernels in a graph than were captured, or "
			"records are missing: such kernels are shown by their names, below the "
			"replay; metrics of captured kernels count once per replay");
}

static size_t next_node(const struct hip_plan *plan, size_t from, bool is_memory)
{
	while (from < plan->count) {
		enum hip_node kind = plan->kinds[from];

		if (is_memory ? kind == HIP_NODE_MEMORY || kind == HIP_NODE_OWN
			      : kind == HIP_NODE_KERNEL)
			break;
		from++;
	}
	return from;
}

/* Adds the records of one kind, the i-th as the i-th node, or all by name. */
static void add_kind(const struct replay *replay, bool is_memory, bool is_trusted)
{
	struct correlation launch = {.where = replay->where,
				     .is_shared = true,
				     .launch = replay->has_launch ? &replay->launch : NULL};
	size_t node = 0;

	for (size_t i = 0; i < replay->count; i++) {
		struct execution execution = replay->held[i].execution;
		bool is_own = false;

		if (execution.is_memory != is_memory)
			continue;
		if (is_trusted) {
			node = next_node(replay->plan, node, is_memory);
			is_own = replay->plan->kinds[node] == HIP_NODE_OWN;
			node++;
		}
		if (!is_own)
			records_add(&launch, is_trusted ? hip_plan_node(replay->plan, node - 1) : 0,
				    &execution);
	}
}

static void add_records(struct replay *replay)
{
	const struct hip_plan *plan = replay->plan;
	size_t memory = replay->count - replay->kernels;
	bool is_trusted = replay->kernels == plan->kernels;

	ARRAY_SORT(replay->held, replay->count, by_order);
	add_kind(replay, true, memory == plan->memory);
	add_kind(replay, false, is_trusted);
	if (is_trusted)
		return;
	for (size_t i = 0; i < plan->count; i++)
		if (plan->kinds[i] == HIP_NODE_KERNEL)
			captured_nodes_record(replay->where, hip_plan_node(plan, i), NULL);
	note_mismatch(replay->kernels);
}

/* Adds what has arrived, and frees it. */
static void dispose(struct replay *replay)
{
	if (!replay->is_done && replay->plan->is_known)
		add_records(replay);
	free(replay->held);
	hip_graphs_release(replay->plan);
}

static bool is_complete(const struct replay *replay)
{
	if (!replay->has_returned || !replay->count)
		return false;
	if (replay->expected != UNKNOWN)
		return replay->count >= replay->expected;
	return replay->kernels >= replay->plan->kernels &&
	       (!atomic_load_explicit(&has_memory, memory_order_relaxed) ||
		replay->count - replay->kernels >= replay->plan->memory);
}

/*
 * Unlocks the table, and adds the records of a replay that is complete. It stays if records too
 * many may still arrive. NULL: none.
 */
static void unlock_replay(struct replay *replay)
{
	struct replay done = {.plan = NULL};

	if (replay && is_complete(replay)) {
		done = *replay;
		if (replay->expected == UNKNOWN) {
			replay->is_done = true;
			replay->held = NULL;
			replay->plan = NULL;
		} else {
			take_replay((size_t)(replay - replays));
		}
	}
	pthread_mutex_unlock(&lock);
	if (done.plan)
		dispose(&done);
}

/* Adds what the first replay up to `newest` has that will get no more; `is_any`: the oldest one. */
static bool settle_first(uint32_t newest, bool is_any)
{
	struct replay replay;
	bool is_found = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < replay_count && !is_found; i++) {
		is_found = is_any || ((int32_t)(replays[i].correlation - newest) <= 0 &&
				      (replays[i].has_returned || replays[i].is_done));
		if (is_found)
			replay = take_replay(i);
	}
	pthread_mutex_unlock(&lock);
	if (is_found)
		dispose(&replay);
	return is_found;
}

/* ------------------------------------------------------------------ launches */

/* The appends of a graph run once per replay. They have the order of the launches. */
static void add_appends(const struct hip_plan *plan)
{
	struct execution execution = {.frame = UINT32_MAX, .start_ns = here.start_ns};

	for (size_t i = 0; plan->appends && i < plan->count; i++)
		if (plan->kinds[i] == HIP_NODE_APPEND)
			captured_nodes_record(here.where, hip_plan_node(plan, i), &execution);
}

void hip_replays_begin(uint64_t exec, uint32_t correlation, struct proton_context where)
{
	const struct hip_plan *plan = hip_graphs_plan(exec);

	here.plan = plan;
	here.where = where;
	here.start_ns = clock_monotonic_ns();
	here.correlation = correlation;
	here.is_open = current_mode() == HIP_REPLAYS_BY_REQUEST;
	here.numbers = 0;
	if (!plan || proton_context_is_empty(where))
		return;
	/* One reference is the table's, the other this launch's. */
	plan = hip_graphs_plan(exec);
	if (plan)
		add_replay(correlation, plan, where);
}

void hip_replays_event(bool is_enter)
{
	if (here.plan && current_mode() == HIP_REPLAYS_BY_EVENT)
		here.is_open = is_enter;
}

uint64_t hip_replays_next(void)
{
	return here.is_open ? ++here.numbers : 0;
}

void hip_replays_end(bool has_failed)
{
	const struct hip_plan *plan = here.plan;
	struct replay failed = {.plan = NULL};
	struct replay *replay;

	if (!plan)
		return;
	here.plan = NULL;
	here.is_open = false;
	if (!has_failed)
		add_appends(plan);
	pthread_mutex_lock(&lock);
	replay = find_replay(here.correlation);
	if (replay && has_failed) {
		failed = take_replay((size_t)(replay - replays));
		failed.is_done = true;
		replay = NULL;
	} else if (replay) {
		replay->has_returned = true;
		if (here.numbers)
			replay->expected = here.numbers;
	}
	unlock_replay(replay);
	if (failed.plan)
		dispose(&failed);
	hip_graphs_release(plan);
}

/* ------------------------------------------------------------------ records */

/* Holds the record. Returns false if it is shown by name. */
static bool hold_replay(struct replay *replay, const struct correlation *launch, uint64_t order,
			const struct execution *execution)
{
	struct held held = {.order = order ? order : replay->count, .execution = *execution};

	held.execution.launch = NULL;
	if (!ARRAY_ADD(replay->held, replay->count, held))
		return false;
	replay->kernels += !execution->is_memory;
	if (launch->launch && !replay->has_launch) {
		replay->launch = *launch->launch;
		replay->has_launch = true;
	}
	return true;
}

/* The graph was captured before the session: the node is not known either. */
static void add_stranger(const struct correlation *launch, const struct hip_plan *plan,
			 const struct execution *execution)
{
	struct execution stranger = *execution;

	records_add(launch, hip_plan_node(plan, 0), &stranger);
}

bool hip_replays_add(const struct correlation *launch, uint64_t number, uint64_t order,
		     const struct execution *execution)
{
	bool is_by_arrival = current_mode() == HIP_REPLAYS_BY_ARRIVAL;
	bool is_held = false, is_over = false;

	if (!is_by_arrival && !number)
		return false;
	pthread_mutex_lock(&lock);
	struct replay *replay = find_replay(execution->correlation);
	bool is_many = replay_count > REPLAYS_MAX;
	if (replay && replay->is_done) {
		is_over = !execution->is_memory;
	} else if (replay && !replay->plan->is_known) {
		const struct hip_plan plan = *replay->plan;

		pthread_mutex_unlock(&lock);
		add_stranger(launch, &plan, execution);
		return true;
	} else if (replay) {
		is_held = hold_replay(replay, launch, is_by_arrival ? order : number, execution);
	}
	unlock_replay(is_held ? replay : NULL);
	if (is_over)
		note_mismatch(1);
	for (uint32_t i = 0; is_many && i < REPLAYS_MAX / 2; i++)
		settle_first(0, true);
	return is_held;
}

/* The number of records for which replays up to `newest` wait. */
static size_t count_missing(uint32_t newest)
{
	size_t missing = 0;

	MUTEX_HOLD(&lock);
	for (size_t i = 0; i < replay_count; i++) {
		const struct replay *replay = &replays[i];

		if ((int32_t)(replay->correlation - newest) > 0 || !replay->has_returned ||
		    replay->is_done || !replay->plan->is_known)
			continue;
		size_t expected = replay->expected != UNKNOWN ? replay->expected
							      : replay->plan->kernels;
		missing += expected > replay->count ? expected - replay->count : 0;
	}
	return missing;
}

/* A flush ends when records of later replays arrive, which does not mean that earlier ones have. */
static void wait_for_missing(uint32_t newest)
{
	uint64_t moved_ns = clock_monotonic_ns();
	size_t before = count_missing(newest);

	while (before && clock_monotonic_ns() - moved_ns < PATIENCE_NS) {
		await_records_ask();
		usleep(100);
		size_t now = count_missing(newest);
		if (now != before)
			moved_ns = clock_monotonic_ns();
		before = now;
	}
}

void hip_replays_settle(uint32_t newest)
{
	wait_for_missing(newest);
	while (settle_first(newest, false))
		continue;
}

void hip_replays_clear(void)
{
	pthread_mutex_lock(&lock);
	while (replay_count) {
		free(replays[replay_count - 1].held);
		hip_graphs_release(replays[--replay_count].plan);
	}
	pthread_mutex_unlock(&lock);
	hip_graphs_clear();
}
