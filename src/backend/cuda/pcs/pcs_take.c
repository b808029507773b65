/* PC samples that CUPTI has decoded: sums them per instruction and adds them to the sessions. */

#include "backend/cuda/pcs/pcs_parts.h"
#include "record/names/frames.h"
#include "record/store/devices.h"

#define BATCH 4096u
#define NOT_ISSUED "_not_issued"

/* By CUPTI's index of a stall reason; guarded by pcs_lock, like the batch. */
static struct {
	uint32_t reason; /* as store_samples_add_reason() returned; UINT32_MAX: not a reason */
	bool is_not_issued;
} * reasons;
static size_t reason_limit;
static struct pc_sample batch[BATCH];
static size_t batch_count;

bool pcs_take_reasons(const uint32_t *indexes, char *const *names, size_t count)
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

/*
 * Samples without a function. CUPTI's total of a call that leaves PCs for the next one counts their
 * samples already (measured with 13.0), so totals are compared when nothing is left.
 */
static uint64_t count_unknown(struct pcs_context *context, const struct pcs_data *data,
			      uint64_t known)
{
	int64_t unmatched = context->unmatched + (int64_t)(data->samples - known);

	context->unmatched = data->remaining ? unmatched : 0;
	return data->remaining || unmatched < 0 ? 0 : (uint64_t)unmatched;
}

void pcs_take(struct pcs_context *context, struct pcs_data *data)
{
	struct sample_totals totals = {.profiler = data->non_user};
	const struct sample_totals none = {0};
	uint32_t correlation = 0, function = 0;
	const char *name = NULL;
	uint64_t crc = 0;
	uint32_t next = 0;

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
	totals.unknown = count_unknown(context, data, totals.samples + data->non_user);
	if (batch_count || totals.profiler || totals.unknown || totals.losses)
		add_batch(0, 0, &totals);
	pcs_statistics.samples += totals.samples;
	pcs_statistics.profiler += totals.profiler;
	pcs_statistics.unknown += totals.unknown;
	data->count = 0;
}
