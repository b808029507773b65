/*
 * Thread that reads PC samples. CUPTI decodes them in the background; this thread fetches them
 * every few milliseconds, sums them per instruction, and adds them to the sessions. In windows, it
 * starts and stops sampling.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/call_gate.h"
#include "backend/cuda/pcs_parts.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/periodic_thread.h"
#include "base/clock.h"
#include "base/message.h"
#include "record/names/frames.h"
#include "record/store/code_objects.h"
#include "record/store/gpu_functions.h"

#define TICK_NS 20000000ull
#define READ_MAX_NS 160000000ull /* between two reads, if they have few PCs */
#define READ_FEW (PCS_CONFIGURED_PCS / 4)
#define READ_MANY (PCS_CONFIGURED_PCS / 2)
#define CLOSE_NS 50000000ull /* to wait for threads that launch or load modules */
#define BATCH 4096u
#define NOT_ISSUED "_not_issued"

static struct periodic_thread thread;

/* By CUPTI's index of a stall reason; guarded by pcs_lock, like the batch. */
static struct {
	uint32_t reason; /* as store_samples_add_reason() returned; UINT32_MAX: not a reason */
	bool is_not_issued;
} * reasons;
static size_t reason_limit;
static struct pc_sample batch[BATCH];
static size_t batch_count;

/* ------------------------------------------------------------------ records */

bool pcs_drain_set_reasons(const uint32_t *indexes, char *const *names, size_t count)
{
	size_t limit = 0;

	for (size_t i = 0; i < count; i++)
		if (indexes[i] >= limit)
			limit = indexes[i] + (size_t)1;
	reasons = limit ? calloc(limit, sizeof(*reasons)) : NULL;
	if (!reasons)
		return false;
	for (size_t i = 0; i < limit; i++)
		reasons[i].reason = UINT32_MAX;
	for (size_t i = 0; i < count; i++) {
		size_t length = strnlen(names[i], PCS_REASON_NAME_BYTES - 1);
		size_t suffix = strlen(NOT_ISSUED);
		char name[PCS_REASON_NAME_BYTES];

		memcpy(name, names[i], length);
		name[length] = '\0';
		if (!strstr(name, "stall")) /* a total of all reasons */
			continue;
		reasons[indexes[i]].is_not_issued = length > suffix &&
						    strcmp(name + length - suffix, NOT_ISSUED) == 0;
		if (reasons[indexes[i]].is_not_issued)
			name[length - suffix] = '\0';
		reasons[indexes[i]].reason = store_samples_add_reason(name);
	}
	reason_limit = limit;
	return true;
}

/* Adds the batch; in serialized mode, its samples belong to one launch. */
static void add_batch(uint32_t correlation, uint32_t function, const struct sample_totals *totals)
{
	struct proton_context where;
	bool is_named;

	if (!correlation) {
		record_samples(pcs_modules_last_sessions(), &cuda_backend, batch, batch_count,
			       totals);
	} else if (pcs_modules_find_launch(correlation, &where, &is_named)) {
		const struct gpu_function *ran = gpu_functions_get(function);

		if (!is_named)
			where = proton_context_enter(where, frames_add(FRAME_KERNEL, ran->name,
								       ran->length));
		record_launch_samples(where, batch, batch_count);
	}
	batch_count = 0;
}

/* Adds the samples of one instruction to the batch, which has space for all reasons. */
static void take_pc(const struct pcs_pc *pc, uint32_t function, struct sample_totals *totals)
{
	size_t first = batch_count;

	for (size_t i = 0; i < pc->reason_count; i++) {
		uint32_t index = pc->reasons[i].index;
		size_t at = first;

		if (index >= reason_limit || reasons[index].reason == UINT32_MAX)
			continue;
		while (at < batch_count && batch[at].reason != reasons[index].reason)
			at++;
		if (at == batch_count)
			batch[batch_count++] = (struct pc_sample){.function = function,
								  .offset = (uint32_t)pc->offset,
								  .reason = reasons[index].reason};
		if (reasons[index].is_not_issued)
			batch[at].not_issued += pc->reasons[i].samples;
		else
			batch[at].samples += pc->reasons[i].samples;
	}
	for (size_t i = first; i < batch_count; i++)
		totals->samples += batch[i].samples;
}

void pcs_drain_take(const struct pcs_context *context, struct pcs_data *data)
{
	struct sample_totals totals = {.profiler = data->non_user};
	const struct sample_totals none = {0};
	uint32_t correlation = 0;
	uint32_t function = 0;
	const char *name = NULL;
	uint64_t crc = 0;
	uint32_t next = 0;
	uint64_t known;

	totals.losses = pcs_statistics.full - pcs_statistics.full_added;
	pcs_statistics.full_added = pcs_statistics.full;
	for (size_t i = 0; i < data->count && i < data->capacity; i++) {
		const struct pcs_pc *pc = &data->pcs[i];
		uint32_t launch = context->is_serialized ? pc->correlation_id : 0;

		if (pc->function != name ||
		    pc->crc != crc) /* the PCs of a function come together */
			next = pc->function ? gpu_functions_add(pc->crc, pc->function) : 0;
		name = pc->function;
		crc = pc->crc;
		if (!next)
			continue;
		if (batch_count && (launch != correlation || (launch && next != function) ||
				    batch_count + SAMPLE_REASONS_MAX > BATCH))
			add_batch(correlation, function, &none);
		if (next != function && code_objects_sampled(pc->crc) == CODE_OBJECT_UNKNOWN)
			pcs_modules_want(pc->crc, next);
		correlation = launch;
		function = next;
		take_pc(pc, next, &totals);
	}
	if (batch_count && correlation)
		add_batch(correlation, function, &none);
	known = totals.samples + data->non_user;
	totals.unknown = data->samples > known ? data->samples - known : 0;
	if (batch_count || totals.profiler || totals.unknown || totals.losses)
		add_batch(0, 0, &totals);
	pcs_statistics.samples += totals.samples;
	pcs_statistics.profiler += totals.profiler;
	pcs_statistics.unknown += totals.unknown;
	data->count = 0;
}

/* ------------------------------------------------------------------ thread */

/* The number of PCs that were read, of all contexts; SIZE_MAX: the next round has to try again. */
static size_t read_all(void)
{
	size_t count = 0;
	bool is_full = false;

	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++) {
		struct pcs_context *context = &pcs_contexts[i];

		if (context->context && !context->is_full)
			count += pcs_context_read(context);
		/* If a thread does not end its launch in time, the next round tries again. */
		if (context->context && context->is_full && pc_sampling_close(CLOSE_NS)) {
			pcs_context_raise_period(context);
			call_gate_open();
		}
		is_full |= context->context && context->is_full;
	}
	return is_full ? SIZE_MAX : count;
}

/*
 * CUPTI's calls may wait for one another, and the launches of the program for them. CUPTI sums what
 * it decodes by PC, in a buffer that has to suffice until the next read: few PCs may wait longer.
 * After a pause many may come.
 */
static uint64_t next_interval(uint64_t interval_ns, size_t count)
{
	if (pcs_mode.window_ns || pcs_mode.is_serialized || !count || count > READ_MANY)
		return TICK_NS;
	if (count < READ_FEW && interval_ns < READ_MAX_NS)
		return 2 * interval_ns;
	return interval_ns;
}

static void begin_or_end_all(bool is_begin)
{
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++) {
		if (!pcs_contexts[i].context)
			continue;
		if (!is_begin)
			pcs_context_end(&pcs_contexts[i]);
		else if (pcs_context_begin(&pcs_contexts[i]) != CUPTI_OK)
			message_once("PC sampling does not start again after a window");
	}
}

/* State of windows. A window without launches stays open: it costs nothing. */
struct windows {
	bool is_open;
	uint64_t launched;  /* launches_count() when it was opened */
	uint32_t shared;    /* launches_last_shared() */
	uint64_t active_ns; /* since when something has been launched in it; 0: nothing yet */
};

/* Opens or closes the window if it is time; returns ns until the next check. */
static uint64_t move_window(struct windows *windows)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t length_ns = windows->is_open ? pcs_mode.window_ns : pcs_mode.distance_ns;

	if (windows->is_open && !windows->active_ns) {
		if (windows->launched == launches_count() &&
		    windows->shared == launches_last_shared())
			return TICK_NS / 2;
		windows->active_ns = now_ns;
	}
	if (now_ns - windows->active_ns < length_ns) {
		uint64_t left_ns = windows->active_ns + length_ns - now_ns;

		return left_ns < TICK_NS ? left_ns : TICK_NS;
	}
	if (!pc_sampling_close(CLOSE_NS))
		return TICK_NS / 2; /* a thread is still launching, or loads a module */
	windows->is_open = !windows->is_open;
	begin_or_end_all(windows->is_open);
	call_gate_open();
	if (windows->is_open) {
		windows->launched = launches_count();
		windows->shared = launches_last_shared();
		windows->active_ns = 0;
	}
	return TICK_NS / 2;
}

static void *run(void *unused)
{
	struct windows windows = {
		.is_open = true, .launched = launches_count(), .shared = launches_last_shared()};
	uint64_t next_ns = TICK_NS;
	uint64_t waited_ns = 0; /* since the last read */
	uint64_t interval_ns = TICK_NS;

	(void)unused;
	while (periodic_thread_wait(&thread, next_ns)) {
		uint64_t start_ns = clock_thread_ns();

		pthread_mutex_lock(&pcs_lock);
		waited_ns += next_ns;
		next_ns = pcs_mode.window_ns ? move_window(&windows) : TICK_NS;
		if (pcs_mode.window_ns || waited_ns >= interval_ns) {
			interval_ns = next_interval(interval_ns, read_all());
			waited_ns = 0;
		}
		pcs_modules_tick();
		pc_sampling_relax();
		pcs_statistics.drain_ns += clock_thread_ns() - start_ns;
		pthread_mutex_unlock(&pcs_lock);
	}
	return NULL;
}

void pcs_drain_start(void)
{
	periodic_thread_start(&thread, run);
}

void pcs_drain_stop(void)
{
	periodic_thread_stop(&thread);
}
