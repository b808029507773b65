/*
 * Records of PC samples: the function and stall reason of each, and the launch of its dispatch. A
 * sample may arrive before the record of its dispatch; it waits for that until the next flush.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/amd/sdk_backend.h"
#include "base/array.h"
#include "base/clock.h"
#include "record/backend.h"
#include "record/sets/record_sessions.h"
#include "record/thread/record_launch.h"

#define DISPATCHES 65536u /* the latest ones; a power of two */
#define WAITING_MAX (1u << 18)
#define BATCH 512u

/* A dispatch and where its kernel is attributed. */
struct dispatch {
	uint64_t id;                 /* 0: unused */
	struct proton_context where; /* empty: its samples are not for the profile */
};

struct waiting {
	uint64_t dispatch_id;
	struct pc_sample sample;
};

/* Samples of one dispatch that have not been added yet. */
struct batch {
	struct pc_sample samples[BATCH];
	size_t count;
	struct proton_context where;
};

_Atomic bool sdk_samples_are_on;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct dispatch *dispatches;
static struct waiting *waiting;
static size_t waiting_count, waiting_capacity;
static struct batch batch;
static uint64_t highest;         /* dispatch with a record */
static uint32_t last_sessions;   /* those at the latest dispatch */
static _Atomic uint64_t cost_ns; /* read without the lock */

/* By the library's reason for not issuing, then the instruction was issued, then unknown. */
static uint32_t reasons[12];
#define REASON_ISSUED 10u
#define REASON_UNKNOWN 11u

/* The names of upstream Proton. */
static const char *const reason_names[] = {
	"misc",
	"no_instruction",
	"alu_dependency",
	"waitcnt",
	"internal_instruction",
	"barrier",
	"not_selected",
	"arbiter_win_ex_stall",
	"other_wait",
	"sleeping",
	[REASON_ISSUED] = "selected",
	[REASON_UNKNOWN] = "unknown",
};

/* ------------------------------------------------------------------ dispatches */

static void note_dispatch(uint64_t id, struct proton_context where)
{
	pthread_mutex_lock(&lock);
	if (dispatches)
		dispatches[id % DISPATCHES] = (struct dispatch){id, where};
	if (id > highest)
		highest = id;
	if (where.sessions)
		last_sessions = where.sessions;
	pthread_mutex_unlock(&lock);
}

void sdk_samples_ignore_dispatch(uint64_t dispatch_id)
{
	if (dispatch_id && sdk_samples_run())
		note_dispatch(dispatch_id, (struct proton_context){0});
}

static const struct dispatch *find_dispatch(uint64_t id)
{
	const struct dispatch *dispatch = dispatches ? &dispatches[id % DISPATCHES] : NULL;

	return id && dispatch && dispatch->id == id ? dispatch : NULL;
}

/* ------------------------------------------------------------------ adding */

static void add_batch(void)
{
	if (batch.count)
		record_launch_samples(batch.where, batch.samples, batch.count);
	batch.count = 0;
}

static void add_sample(struct proton_context where, const struct pc_sample *sample)
{
	if (proton_context_is_empty(where))
		return;
	if (batch.count == BATCH || memcmp(&batch.where, &where, sizeof(where)) != 0)
		add_batch();
	batch.where = where;
	batch.samples[batch.count++] = *sample;
}

/* Samples that belong to no launch. */
static void add_unknown(const struct pc_sample *samples, size_t count, uint64_t unknown,
			uint64_t losses)
{
	struct sample_totals totals = {.unknown = unknown, .losses = losses};

	if (!count && !unknown && !losses)
		return;
	for (size_t i = 0; i < count; i++)
		totals.samples += samples[i].samples;
	record_samples(last_sessions, &rocprofiler_backend, samples, count, &totals);
}

/* False if there is no space. */
static bool wait_for(uint64_t dispatch_id, const struct pc_sample *sample)
{
	struct waiting *last = waiting_count ? &waiting[waiting_count - 1] : NULL;

	if (last && last->dispatch_id == dispatch_id && last->sample.function == sample->function &&
	    last->sample.offset == sample->offset && last->sample.reason == sample->reason) {
		last->sample.samples += sample->samples;
		last->sample.not_issued += sample->not_issued;
		return true;
	}
	if (waiting_count == WAITING_MAX ||
	    !array_reserve(&waiting, &waiting_capacity, waiting_count + 1, sizeof(*waiting)))
		return false;
	waiting[waiting_count++] = (struct waiting){dispatch_id, *sample};
	return true;
}

/* A dispatch that is older than others with a record, and has none, will not get one. */
static void settle_waiting(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < waiting_count; i++) {
		const struct dispatch *dispatch = find_dispatch(waiting[i].dispatch_id);

		if (dispatch)
			add_sample(dispatch->where, &waiting[i].sample);
		else if (waiting[i].dispatch_id <= highest)
			add_unknown(&waiting[i].sample, 1, 0, 0);
		else
			waiting[kept++] = waiting[i];
	}
	waiting_count = kept;
	add_batch();
}

void sdk_samples_settle(void)
{
	pthread_mutex_lock(&lock);
	settle_waiting();
	pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ records */

/* The part that both kinds of records have. */
struct taken {
	struct sdk_pc pc;
	uint64_t dispatch_id;
	uint32_t reason;
	bool is_scheduler_idle;
};

static struct taken read_stochastic(const struct sdk_stochastic_sample *sample)
{
	bool is_issued = sample->bits & SDK_SAMPLE_ISSUED;
	uint32_t reason = sample->snapshot & SDK_SNAPSHOT_REASON;

	return (struct taken){
		.pc = sample->pc,
		.dispatch_id = sample->dispatch_id,
		.reason = is_issued                ? REASON_ISSUED
			  : reason < REASON_ISSUED ? reason
						   : 0,
		.is_scheduler_idle = !(sample->snapshot & SDK_SNAPSHOT_ISSUED),
	};
}

/* False for a record that is shorter than what is read, or of another kind. */
static bool read_record(const struct sdk_record_header *header, struct taken *out)
{
	const struct sdk_host_trap_sample *trap = header->payload;

	if (header->kind == SDK_SAMPLE_STOCHASTIC &&
	    trap->size >= offsetof(struct sdk_stochastic_sample, memory_counters)) {
		*out = read_stochastic(header->payload);
		return true;
	}
	if (header->kind != SDK_SAMPLE_HOST_TRAP ||
	    trap->size < offsetof(struct sdk_host_trap_sample, workgroup))
		return false;
	*out = (struct taken){
		.pc = trap->pc, .dispatch_id = trap->dispatch_id, .reason = REASON_UNKNOWN};
	return true;
}

/* Returns false if the sample could not be added. */
static bool take_sample(const struct sdk_record_header *header, uint64_t *unknown)
{
	struct pc_sample sample = {.samples = 1};
	const struct dispatch *dispatch;
	struct taken taken;

	if (header->kind != SDK_SAMPLE_INVALID && !read_record(header, &taken))
		return false;
	if (header->kind == SDK_SAMPLE_INVALID ||
	    !sdk_code_objects_find(taken.pc.code_object, taken.pc.offset, &sample.function,
				   &sample.offset)) {
		(*unknown)++;
		return true;
	}
	sample.reason = reasons[taken.reason];
	sample.not_issued = taken.is_scheduler_idle;
	dispatch = find_dispatch(taken.dispatch_id);
	if (dispatch)
		add_sample(dispatch->where, &sample);
	else
		return wait_for(taken.dispatch_id, &sample);
	return true;
}

void sdk_samples_on_buffer(struct sdk_context context, struct sdk_buffer buffer,
			   struct sdk_record_header **headers, size_t count, void *data,
			   uint64_t dropped)
{
	uint64_t start_ns = clock_thread_ns();
	uint64_t unknown = 0;

	if (!sdk_samples_run() || sdk_state_now() == SDK_ORPHANED)
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		if (headers[i]->category == SDK_CATEGORY_PC_SAMPLING &&
		    !take_sample(headers[i], &unknown))
			dropped++;
	add_batch();
	add_unknown(NULL, 0, unknown, dropped);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add_explicit(&cost_ns, clock_thread_ns() - start_ns, memory_order_relaxed);
}

/* ------------------------------------------------------------------ life */

void sdk_samples_start(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < ARRAY_LENGTH(reason_names); i++)
		reasons[i] = store_samples_add_reason(reason_names[i]);
	if (!dispatches)
		dispatches = calloc(DISPATCHES, sizeof(*dispatches));
	atomic_store_explicit(&cost_ns, 0, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
	record_observe_dispatches(note_dispatch);
}

void sdk_samples_clear(void)
{
	record_observe_dispatches(NULL);
	pthread_mutex_lock(&lock);
	if (dispatches)
		memset(dispatches, 0, DISPATCHES * sizeof(*dispatches));
	free(waiting);
	waiting = NULL;
	waiting_count = waiting_capacity = 0;
	batch.count = 0;
	last_sessions = 0;
	highest = 0;
	pthread_mutex_unlock(&lock);
}

void sdk_samples_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}

uint64_t sdk_samples_cost_ns(void)
{
	return atomic_load_explicit(&cost_ns, memory_order_relaxed);
}
