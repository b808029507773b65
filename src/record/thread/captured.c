/* CUDA graph capture: metrics held for captured work, and its executions. */
#include "record/thread/captured.h"

#include <math.h>

#include "base/array.h"
#include "base/clock.h"
#include "record/names/frames.h"
#include "record/thread/adding.h"
#include "record/thread/record_launch.h"

#define AGAIN_NS 20000000ull
#define OPEN_MAX 64u /* captures at a time; more are not known */

struct capture_set {
	_Atomic uint64_t keys[OPEN_MAX]; /* 0: free */
	_Atomic int count;
};

/*
 * The open captures of the process by key. Another thread than the one that began a capture may end
 * it. The flag of the beginning thread then stays set, and counts only while some capture is open.
 * Captures that began unseen have no key here: their ends end no other.
 */
static struct capture_set captures;
static struct capture_set unseen; /* captures that began unseen, by their graphs */
static _Atomic uint64_t begun_ns; /* when the last one began */
static _Thread_local uint64_t begun_here_ns;

/* Metrics captured on the calling thread. Freed when the capture ends. */
static _Thread_local struct {
	bool is_on;
	struct captured_metric *metrics;
	size_t count;
	size_t capacity;
} capture;

static bool is_vector(const struct captured_metric *metric)
{
	return metric->value.type == PROTON_METRIC_INT64_VECTOR ||
	       metric->value.type == PROTON_METRIC_DOUBLE_VECTOR;
}

static void free_elements(const struct captured_metric *metrics, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is_vector(&metrics[i])) /* allocated here; the interface declares them const */
			free((void *)(uintptr_t)metrics[i].value.value.int64s);
}

/* `key` 0: any one. */
static void remove_key(struct capture_set *set, uint64_t key)
{
	for (uint32_t i = 0; i < OPEN_MAX && atomic_load(&set->count); i++) {
		uint64_t expected = key ? key : atomic_load(&set->keys[i]);

		if (!expected || !atomic_compare_exchange_strong(&set->keys[i], &expected, 0))
			continue;
		atomic_fetch_sub(&set->count, 1);
		if (!key)
			return;
	}
}

static void add_key(struct capture_set *set, uint64_t key)
{
	for (uint32_t i = 0; i < OPEN_MAX; i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(&set->keys[i], &none, key)) {
			atomic_fetch_add(&set->count, 1);
			return;
		}
	}
}

static void clear_keys(struct capture_set *set)
{
	for (uint32_t i = 0; i < OPEN_MAX; i++)
		remove_key(set, 0);
}

static void set_here(bool is_capturing)
{
	capture.is_on = is_capturing;
	free_elements(capture.metrics, capture.count);
	free(capture.metrics);
	capture.metrics = NULL;
	capture.count = 0;
	capture.capacity = 0;
}

void captured_begin(uint64_t key)
{
	begun_here_ns = clock_monotonic_ns();
	atomic_store_explicit(&begun_ns, begun_here_ns, memory_order_relaxed);
	remove_key(&captures, key); /* its end was not seen */
	add_key(&captures, key);
	set_here(true);
}

void captured_end(uint64_t key)
{
	remove_key(&captures, key);
	set_here(false);
}

bool captured_any_open(void)
{
	return atomic_load_explicit(&captures.count, memory_order_relaxed) > 0 ||
	       atomic_load_explicit(&unseen.count, memory_order_relaxed) > 0;
}

void captured_note_graph(const void *graph)
{
	if (!captured_any_open()) /* else that one, or it is noted when it is the only one */
		add_key(&unseen, (uintptr_t)graph);
}

void captured_forget_graph(const void *graph)
{
	if (graph)
		remove_key(&unseen, (uintptr_t)graph);
}

void captured_forget_unseen(void)
{
	clear_keys(&unseen);
}

bool captured_may_open(void)
{
	uint64_t last_ns = atomic_load_explicit(&begun_ns, memory_order_relaxed);

	if (captured_any_open())
		return true;
	return last_ns != begun_here_ns && clock_monotonic_ns() - last_ns < AGAIN_NS;
}

bool captured_is_on(void)
{
	return capture.is_on && captured_any_open();
}

void captured_clear(void)
{
	clear_keys(&captures);
	clear_keys(&unseen);
}

/* `path` below the special frame that separates the captured path. */
static uint32_t below_captured_at(uint32_t path)
{
	static const char name[] = "<captured_at>";
	uint32_t frame = frames_add(FRAME_NAME, name, sizeof(name) - 1);

	return context_tree_append(context_tree_child(PROTON_CONTEXT_ROOT, frame), path);
}

struct proton_context captured_path(struct proton_context where)
{
	return (struct proton_context){
		.shadow = below_captured_at(where.shadow),
		.source = below_captured_at(where.source),
		.sessions = where.sessions,
	};
}

bool captured_hold(struct proton_context where, uint32_t name, const struct proton_metric *metric)
{
	struct captured_metric held = {
		.where = captured_path(where),
		.name = name,
		.value = *metric,
	};

	if (metric->type == PROTON_METRIC_STRING ||
	    !array_reserve(&capture.metrics, &capture.capacity, capture.count + 1,
			   sizeof(*capture.metrics)))
		return false;
	if (is_vector(&held)) {
		size_t bytes = (size_t)metric->count * sizeof(int64_t);
		int64_t *copy = malloc(bytes ? bytes : 1);

		if (!copy)
			return false;
		if (bytes)
			memcpy(copy, metric->value.int64s, bytes);
		held.value.value.int64s = copy;
	}
	capture.metrics[capture.count++] = held;
	return true;
}

bool captured_take_rest(struct captured *captured)
{
	size_t capacity = captured->metric_count;

	if (!capture.count)
		return true;
	if (!array_reserve(&captured->metrics, &capacity, captured->metric_count + capture.count,
			   sizeof(*captured->metrics)))
		return false;
	memcpy(captured->metrics + captured->metric_count, capture.metrics,
	       capture.count * sizeof(*capture.metrics));
	captured->metric_count += (uint32_t)capture.count;
	capture.count = 0;
	return true;
}

size_t captured_held(void)
{
	return capture.count;
}

bool captured_take(struct captured *out, bool is_kernel)
{
	*out = (struct captured){
		.where = captured_path(proton_context_here()),
		.newest_serial = session_newest_serial(),
		.is_named = is_kernel && record_is_in_op(),
	};
	return !is_kernel || captured_take_rest(out);
}

void captured_free(struct captured *captured)
{
	free_elements(captured->metrics, captured->metric_count);
	free(captured->metrics);
	*captured = (struct captured){0};
}

static bool was_active(const struct captured *captured, const struct config_entry *entry)
{
	const struct config *config = session_config_get(captured->where.sessions);

	for (uint32_t i = 0; i < config->count; i++)
		if (config->entries[i].slot == entry->slot &&
		    config->entries[i].serial == entry->serial)
			return true;
	return false;
}

static _Atomic double weight = 1;

void captured_set_weight(double now)
{
	atomic_store(&weight, now);
}

/* Vectors are not multiplied. */
static struct proton_metric weighted(struct proton_metric metric)
{
	double factor = atomic_load_explicit(&weight, memory_order_relaxed);

	if (metric.type == PROTON_METRIC_DOUBLE)
		metric.value.float64 *= factor;
	else if (metric.type == PROTON_METRIC_INT64 && factor != 1)
		metric.value.int64 = llround((double)metric.value.int64 * factor);
	return metric;
}

static void add_metrics(const struct session_walk *walk, uint32_t launch,
			const struct captured *captured)
{
	ARRAY_EACH(metric, captured->metrics, captured->metric_count) {
		uint32_t path = session_context(walk->entry, metric->where);
		struct proton_metric value = weighted(metric->value);

		/* The store counts a value of a different type as lost. */
		store_metric(&walk->session->store, context_tree_append(launch, path),
			     walk->entry->epoch, metric->name, &value, NULL);
	}
}

/* The context of a kernel's PC samples in all sessions: the captured one if any knows it. */
static struct proton_context context_of_samples(struct proton_context launch,
						const struct captured *captured, uint32_t frame)
{
	const struct config *config = session_config_get(launch.sessions);
	bool is_known = false;

	for (uint32_t i = 0; i < config->count; i++)
		is_known = is_known || was_active(captured, &config->entries[i]);
	if (!is_known)
		return proton_context_enter(launch, frame);
	launch.shadow = context_tree_append(launch.shadow, captured->where.shadow);
	launch.source = context_tree_append(launch.source, captured->where.source);
	return captured->is_named ? launch : proton_context_enter(launch, frame);
}

void captured_record(struct proton_context launch, const struct captured *captured,
		     const struct execution *execution)
{
	struct session_walk walk = {.sessions = launch.sessions, .lock = adding_lock};

	if (execution->dispatch && record_dispatches_are_observed())
		record_dispatch(execution->dispatch,
				context_of_samples(launch, captured, execution->frame));
	while (session_walk(&walk)) {
		const struct config_entry *entry = walk.entry;
		uint32_t context = session_context(entry, launch);
		bool is_known = was_active(captured, entry);

		/* A session that was live but paused at the capture: omit work it did not see. */
		if (!is_known && entry->serial <= captured->newest_serial)
			continue;
		if (execution->is_memory && !entry->wants_memory)
			continue;
		if (is_known) {
			uint32_t path = session_context(entry, captured->where);

			add_metrics(&walk, context, captured);
			context = context_tree_append(context, path);
		}
		if (!is_known || !captured->is_named)
			context = context_tree_child(context, execution->frame);
		store_kernel(&walk.session->store, context, captured->where.shadow, entry->epoch,
			     execution);
	}
}

void captured_record_metrics(struct proton_context launch, const struct captured *captured)
{
	struct session_walk walk = {.sessions = launch.sessions, .lock = adding_lock};

	while (session_walk(&walk))
		if (was_active(captured, walk.entry))
			add_metrics(&walk, session_context(walk.entry, launch), captured);
}
