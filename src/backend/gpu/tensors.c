/*
 * Device metrics of a GPU backend.
 *
 * A value that is read at once is added when it arrives. A value read by a graph node arrives once
 * per execution, and belongs below the replay that executed the node. That replay is known from
 * the record of the append kernel itself. Values arrive in the order of execution and wait in a
 * queue of their node. Records arrive in any order, so they wait too and are sorted; each takes the
 * next value. If a record is lost, its value keeps its sum but is attributed to another replay:
 * tensors_settle().
 *
 * Ids have a generation in their upper half. A graph may still be replayed after the sessions of
 * its capture have ended; its values are then unknown here and dropped.
 */
#include "backend/gpu/tensors.h"

#include "base/array.h"
#include "base/message.h"
#include "base/mutex.h"
#include "record/names/frames.h"
#include "record/record.h"

#define QUEUE_MAX (1u << 20) /* values of one node that wait for their records */
/* Records of one node that wait; at this number the older half is certainly complete. */
#define EXECUTION_MAX 4096u

/* One execution of a captured append, from its record. */
struct execution_of_append {
	uint64_t start_ns;
	struct proton_context launch;
};

struct tensor {
	struct device_metric metric;
	uint64_t id; /* the lower half is its slot */
	uint32_t references;
	bool is_captured;
	struct execution_of_append last;
	uint64_t last_caught_up_ns;             /* start of `last` at the previous catch-up */
	struct execution_of_append *executions; /* executions that have taken no value yet */
	size_t execution_count;
	/* The queue: values [first, first + count) of metric.bytes each. */
	uint8_t *values;
	size_t first;
	size_t count;
	size_t capacity;
	size_t due; /* number of values that the current flush must add */
};

struct slot {
	struct tensor *tensor;
	uint32_t generation;
	uint32_t next_free; /* slot + 1 */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; before a session */
static const struct tensors_reader *reader;
static struct slot *slots;
static size_t slot_count;
static uint32_t free_slot;              /* slot + 1 */
static struct execution_of_append last; /* of all graphs with values; start_ns 0: none */
static uint64_t lost_before;
static bool loss_was_noted;
static _Atomic uint32_t captured_count; /* number of tensors held by graphs */
static _Atomic uint32_t kernel_frame = FRAME_NONE;

/* The current append of the calling thread. */
static _Thread_local struct tensor *launching;

/* ------------------------------------------------------------------ the table */

static struct tensor *add_tensor(const struct device_metric *metric, bool is_captured)
{
	struct tensor *tensor = calloc(1, sizeof(*tensor));
	uint32_t slot = 0;

	if (!tensor)
		return NULL;
	tensor->metric = *metric;
	tensor->is_captured = is_captured;
	tensor->references = 1;
	if (is_captured)
		device_metric_set_captured(&tensor->metric);
	MUTEX_HOLD(&lock);
	if (free_slot) {
		slot = free_slot - 1;
		free_slot = slots[slot].next_free;
	} else if (ARRAY_ADD(slots, slot_count, (struct slot){.generation = 0})) {
		slot = (uint32_t)slot_count - 1;
	} else {
		free(tensor);
		tensor = NULL;
	}
	if (tensor) {
		slots[slot].tensor = tensor;
		tensor->id = (uint64_t)++slots[slot].generation << 32 | slot;
	}
	return tensor;
}

static struct tensor *find_tensor(uint64_t id)
{
	const struct slot *slot = &slots[(uint32_t)id];

	if ((uint32_t)id >= slot_count || slot->generation != (uint32_t)(id >> 32))
		return NULL;
	return slot->tensor;
}

/* ------------------------------------------------------------------ values */

static bool push_value(struct tensor *tensor, const void *bytes)
{
	size_t size = tensor->metric.bytes;

	if (tensor->count == QUEUE_MAX)
		return false;
	if (tensor->first && tensor->first + tensor->count == tensor->capacity) {
		memmove(tensor->values, tensor->values + tensor->first * size,
			tensor->count * size);
		tensor->first = 0;
	}
	if (!array_reserve(&tensor->values, &tensor->capacity, tensor->first + tensor->count + 1,
			   size))
		return false;
	memcpy(tensor->values + (tensor->first + tensor->count++) * size, bytes, size);
	return true;
}

/* Adds the next value below `launch`. */
static void pop_value(struct tensor *tensor, struct proton_context launch)
{
	const uint8_t *value = tensor->values + tensor->first * tensor->metric.bytes;

	tensor->first++;
	tensor->count--;
	if (tensor->due)
		tensor->due--;
	device_metric_add(&tensor->metric, &launch, value);
}

ARRAY_ORDER(by_start, struct execution_of_append, ORDER_OF(a->start_ns, b->start_ns))

/* The `count` oldest executions take their values, if these have arrived. */
static void match_value(struct tensor *tensor, size_t count)
{
	if (!count)
		return;
	ARRAY_SORT(tensor->executions, tensor->execution_count, by_start);
	for (size_t i = 0; i < count && tensor->count; i++)
		pop_value(tensor, tensor->executions[i].launch);
	tensor->execution_count -= count;
	memmove(tensor->executions, tensor->executions + count,
		tensor->execution_count * sizeof(*tensor->executions));
}

/* All records have arrived: due values without a record are attributed to the newest replay. */
static void settle_values(struct tensor *tensor)
{
	match_value(tensor, tensor->execution_count);
	if (tensor->due && !last.start_ns) {
		record_count(COUNTER_LOST_VALUE, tensor->due);
		tensor->first += tensor->due;
		tensor->count -= tensor->due;
		tensor->due = 0;
	}
	while (tensor->due)
		pop_value(tensor, tensor->last.start_ns ? tensor->last.launch : last.launch);
}

static void free_tensor(struct tensor *tensor, bool is_released)
{
	tensor->due = tensor->count;
	settle_values(tensor);
	slots[(uint32_t)tensor->id].tensor = NULL;
	slots[(uint32_t)tensor->id].next_free = free_slot;
	free_slot = (uint32_t)tensor->id + 1;
	if (is_released)
		device_metric_release(&tensor->metric);
	FREE_ALL(tensor->executions, tensor->values, tensor);
}

static void drop_values(struct tensor *tensor, bool is_released)
{
	if (--tensor->references == 0)
		free_tensor(tensor, is_released);
}

static void deliver(uint64_t id, const void *bytes, uint32_t count)
{
	struct tensor *tensor = find_tensor(id);

	if (!tensor || tensor->metric.bytes != count)
		return; /* captured under sessions that have ended */
	if (tensor->is_captured) {
		if (!push_value(tensor, bytes))
			record_count(COUNTER_LOST_VALUE, 1);
		return;
	}
	device_metric_add(&tensor->metric, NULL, bytes);
	drop_values(tensor, true);
}

static void drain_locked(void)
{
	if (!reader)
		return; /* a backend without device metrics */
	reader->drain(deliver);
	uint64_t lost = reader->lost();
	if (lost == lost_before)
		return;
	record_count(COUNTER_LOST_VALUE, lost - lost_before);
	lost_before = lost;
}

void tensors_executed(struct tensor *tensor, struct proton_context launch, uint64_t start_ns)
{
	struct execution_of_append execution = {.start_ns = start_ns, .launch = launch};

	MUTEX_HOLD(&lock);
	drain_locked();
	if (start_ns >= last.start_ns)
		last = execution;
	if (start_ns >= tensor->last.start_ns)
		tensor->last = execution;
	/* Without memory a value stays in the queue, and is attributed to a later replay. */
	(void)ARRAY_ADD(tensor->executions, tensor->execution_count, execution);
	if (tensor->execution_count == EXECUTION_MAX)
		match_value(tensor, EXECUTION_MAX / 2);
}

void tensors_relieve(void)
{
	if (!atomic_load_explicit(&captured_count, memory_order_relaxed) || !reader->is_filling())
		return;
	MUTEX_HOLD(&lock);
	drain_locked();
}

/* Processes executions that have been known for some time: older ones will not arrive any more. */
static void catch_up(struct tensor *tensor)
{
	size_t count = 0;

	for (size_t i = 0; i < tensor->execution_count; i++)
		count += tensor->executions[i].start_ns <= tensor->last_caught_up_ns;
	match_value(tensor, count);
	tensor->last_caught_up_ns = tensor->last.start_ns;
}

void tensors_catch_up(void)
{
	MUTEX_HOLD(&lock);
	drain_locked();
	for (size_t i = 0; i < slot_count; i++)
		if (slots[i].tensor)
			catch_up(slots[i].tensor);
}

void tensors_collect(void)
{
	MUTEX_HOLD(&lock);
	drain_locked();
	for (size_t i = 0; i < slot_count; i++)
		if (slots[i].tensor)
			slots[i].tensor->due = slots[i].tensor->count;
}

void tensors_settle(void)
{
	MUTEX_HOLD(&lock);
	for (size_t i = 0; i < slot_count; i++) {
		struct tensor *tensor = slots[i].tensor;

		if (tensor)
			settle_values(tensor);
	}
}

/* ------------------------------------------------------------------ requests */

int tensors_refuse(int result, const char *call, struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED, "cannot read device metrics: %s failed (%d)",
		       call, result);
}

bool tensors_is_append(uint32_t frame)
{
	return frame == atomic_load_explicit(&kernel_frame, memory_order_relaxed) &&
	       frame != FRAME_NONE;
}

struct tensor *tensors_hold_captured(void)
{
	struct tensor *tensor = launching;

	if (!tensor || !tensor->is_captured)
		return NULL;
	pthread_mutex_lock(&lock);
	tensor->references++;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add_explicit(&captured_count, 1, memory_order_relaxed);
	return tensor;
}

void tensors_drop(struct tensor *tensor)
{
	pthread_mutex_lock(&lock);
	drain_locked(); /* its values may have arrived already */
	drop_values(tensor, true);
	pthread_mutex_unlock(&lock);
	atomic_fetch_sub_explicit(&captured_count, 1, memory_order_relaxed);
}

/* A capturing stream cannot be waited for, so no other code can read the value. */
static int lose_metric(const struct device_metric *metric, const char *why)
{
	record_count(COUNTER_LOST_VALUE, 1);
	pthread_mutex_lock(&lock);
	bool is_first = !loss_was_noted;
	loss_was_noted = true;
	pthread_mutex_unlock(&lock);
	if (is_first)
		message("metric lost during %s graph capture: %s", reader->graphs, why);
	device_metric_release(metric);
	return PROTON_OK;
}

static int launch_append(struct append *append, const struct device_metric *metric,
			 struct proton_error *err)
{
	struct tensor *tensor = add_tensor(metric, append->is_capturing);

	if (!tensor)
		return err_nomem(err);
	launching = tensor;
	record_own_work_begin();
	int status = reader->launch(append, tensor->id, metric->address, metric->bytes, err);
	record_own_work_end();
	launching = NULL;
	if (status == PROTON_OK && !append->is_capturing)
		return PROTON_OK; /* the reference is released with the value */
	pthread_mutex_lock(&lock);
	bool is_orphan = tensor->references == 1;
	drop_values(tensor, false);
	pthread_mutex_unlock(&lock);
	if (status == PROTON_OK && is_orphan)
		return err_set(err, PROTON_E_STATE, "%s did not report the captured node",
			       reader->library);
	return status;
}

int tensors_read(const struct device_metric *metric, struct proton_error *err)
{
	struct proton_error why = {.text = ""};
	struct append append;
	int status = reader->begin(&append, metric->stream, metric->address, &why);

	if (status == PROTON_OK && append.is_refused)
		status = err_set(&why, PROTON_E_STATE, "the stream capture failed");
	if (status == PROTON_OK)
		status = launch_append(&append, metric, &why);
	reader->end(&append);
	if (status != PROTON_OK && append.is_capturing)
		return lose_metric(metric, why.text);
	if (status != PROTON_OK)
		return err_set(err, PROTON_E_UNSUPPORTED, "%s", why.text);
	/* Add values that arrived since the last time; their owners get their memory back. */
	MUTEX_HOLD(&lock);
	drain_locked();
	return PROTON_OK;
}

/* ------------------------------------------------------------------ start and stop */

void tensors_start(const struct tensors_reader *of)
{
	uint32_t frame = of->kernel ? frames_add(FRAME_KERNEL, of->kernel, strlen(of->kernel))
				    : FRAME_NONE;

	atomic_store_explicit(&kernel_frame, frame, memory_order_relaxed);
	MUTEX_HOLD(&lock);
	reader = of;
	reader->drain(deliver); /* values left by graphs of earlier sessions */
	lost_before = reader->lost();
	last = (struct execution_of_append){0};
	loss_was_noted = false;
}

void tensors_stop(void)
{
	uint32_t missing = 0;

	pthread_mutex_lock(&lock);
	drain_locked();
	/* Tensors of graphs are freed with their nodes, one of which a record may use just now. */
	for (size_t i = 0; i < slot_count; i++) {
		if (!slots[i].tensor || slots[i].tensor->is_captured)
			continue;
		free_tensor(slots[i].tensor, true);
		missing++;
	}
	pthread_mutex_unlock(&lock);
	/* A flush waits for them, unless a capture is open; no session is left to count them in. */
	if (missing)
		message("%u device metrics had not been read when the last session ended", missing);
}
