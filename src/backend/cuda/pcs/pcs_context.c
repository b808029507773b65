/* CUPTI's calls for the PC sampling of one context. pcs_lock is held. */

#include "backend/cuda/pcs/pcs_parts.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"

#define OUT_PCS 8192u
#define SCRATCH_BYTES (16u << 20)
#define ATTRIBUTES_MAX 8u
#define READS_MAX 100000u

static struct pcs_data *out; /* buffer of pcs_context_read() */
/*
 * Buffers of contexts that are no longer enabled. They are used again and never freed: a thread of
 * CUPTI may still use one when cuptiPCSamplingDisable() has returned.
 */
static struct pcs_data *spares[PCS_CONTEXTS_MAX];
static size_t reason_count;

static struct pcs_params params_of(const struct pcs_context *context)
{
	return (struct pcs_params){.size = PARAMS_BYTES(struct pcs_params, context),
				   .context = context->context};
}

/* A buffer for `count` PCs, with all stall reasons each. One allocation. */
static struct pcs_data *new_data(size_t count)
{
	struct pcs_data *data =
		calloc(1, sizeof(*data) + count * (sizeof(*data->pcs) +
						   reason_count * sizeof(*data->pcs->reasons)));

	if (!data)
		return NULL;
	*data = (struct pcs_data){.size = sizeof(*data), .capacity = count};
	data->pcs = (struct pcs_pc *)(data + 1);
	struct pcs_reason *reasons = (struct pcs_reason *)(data->pcs + count);
	for (size_t i = 0; i < count; i++)
		data->pcs[i] = (struct pcs_pc){.size = sizeof(*data->pcs),
					       .reasons = reasons + i * reason_count};
	return data;
}

static struct pcs_data *take_spare(void)
{
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX; i++) {
		struct pcs_data *spare = spares[i];

		spares[i] = NULL;
		if (spare)
			return spare;
	}
	return new_data(PCS_CONFIGURED_PCS);
}

/* There is space: as many contexts as spares are enabled at a time. */
static void put_spare(struct pcs_data *data)
{
	for (uint32_t i = 0; i < PCS_CONTEXTS_MAX && data; i++) {
		if (spares[i])
			continue;
		spares[i] = data;
		return;
	}
}

/* Nothing of an earlier use is in the buffer. */
static void clear_data(struct pcs_data *data)
{
	data->count = data->remaining = 0;
	data->samples = data->non_user = 0;
	data->is_full = 0;
}

/* The error of a call for this context. E_STATE: it does not exist (any more). */
static int refuse(const struct pcs_context *context, int result, const char *call,
		  struct proton_error *err)
{
	if (result == CUPTI_E_INVALID_CONTEXT)
		return err_set(err, PROTON_E_STATE, "%s: CUPTI does not know the CUDA context",
			       call);
	if (result != CUPTI_E_HARDWARE_BUSY)
		return cupti_api_error(result, call, err);
	return err_set(err, PROTON_E_BUSY,
		       "another process samples PCs on GPU %u, or DCGM measures it; wait for its "
		       "end, or pause DCGM with \"dcgmi profile --pause\"",
		       context->device);
}

/* Asks CUPTI for the stall reasons, once. */
static int read_reasons(const struct pcs_context *context)
{
	size_t count = 0;
	struct pcs_reason_count_params counting = {
		.size = PARAMS_BYTES(struct pcs_reason_count_params, count),
		.context = context->context,
		.count = &count,
	};
	struct pcs_reason_names_params naming = {
		.size = PARAMS_BYTES(struct pcs_reason_names_params, names),
		.context = context->context,
	};
	char *texts = NULL;
	int result = libcupti.cuptiPCSamplingGetNumStallReasons(&counting);

	if (result != CUPTI_OK || reason_count)
		return result;
	naming.count = count;
	naming.indexes = calloc(count, sizeof(*naming.indexes));
	naming.names = calloc(count, sizeof(*naming.names));
	texts = calloc(count, PCS_REASON_NAME_BYTES);
	for (size_t i = 0; i < count && texts && naming.names; i++)
		naming.names[i] = texts + i * PCS_REASON_NAME_BYTES;
	result = texts && naming.indexes && naming.names
			 ? libcupti.cuptiPCSamplingGetStallReasons(&naming)
			 : CUPTI_E_OUT_OF_MEMORY;
	if (result == CUPTI_OK && !pcs_take_reasons(naming.indexes, naming.names, count))
		result = CUPTI_E_OUT_OF_MEMORY;
	if (result == CUPTI_OK)
		reason_count = count;
	FREE_ALL(texts, naming.names, naming.indexes);
	return result;
}

/* CUPTI chooses the hardware buffer's size: on compute capability 12, reads fail if it is set. */
static int configure(struct pcs_context *context)
{
	struct pcs_attribute attributes[ATTRIBUTES_MAX] = {
		{.type = PCS_ATTRIBUTE_COLLECTION_MODE,
		 .value.number = pcs_mode.is_serialized ? PCS_SERIALIZED : PCS_CONTINUOUS},
		{.type = PCS_ATTRIBUTE_PERIOD, .value.number = context->period},
		{.type = PCS_ATTRIBUTE_BUFFER, .value.pointer = context->configured},
		{.type = PCS_ATTRIBUTE_SCRATCH_BYTES, .value.bytes = SCRATCH_BYTES},
		{.type = PCS_ATTRIBUTE_WORKER_SLEEP_MS, .value.number = PCS_WORKER_SLEEP_MS},
		/* The first start takes 0.3 s, so only windows start and stop. */
		{.type = PCS_ATTRIBUTE_START_STOP, .value.number = pcs_mode.windows.length_ns != 0},
	};
	struct pcs_attributes_params params = {
		.size = sizeof(struct pcs_attributes_params),
		.context = context->context,
		.count = 6,
		.attributes = attributes,
	};
	int result = libcupti.cuptiPCSamplingSetConfigurationAttribute(&params);

	if (result != CUPTI_OK)
		return result;
	attributes[0] = (struct pcs_attribute){.type = PCS_ATTRIBUTE_PERIOD};
	params.count = 1;
	if (libcupti.cuptiPCSamplingGetConfigurationAttribute(&params) == CUPTI_OK &&
	    attributes[0].value.number)
		context->period = attributes[0].value.number;
	return CUPTI_OK;
}

/* Enables and configures; a context that was enabled is kept, even after a failure. */
static int enable_context(struct pcs_context *context, struct proton_error *err)
{
	struct pcs_params params = params_of(context);
	const char *call = "cuptiPCSamplingEnable";
	int result = libcupti.cuptiPCSamplingEnable(&params);

	if (result != CUPTI_OK)
		return refuse(context, result, call, err);
	call = "cuptiPCSamplingGetStallReasons";
	result = read_reasons(context);
	if (result == CUPTI_OK) {
		if (!out)
			out = new_data(OUT_PCS);
		if (!context->configured)
			context->configured = take_spare();
		call = "cuptiPCSamplingSetConfigurationAttribute";
		result = out && context->configured ? configure(context) : CUPTI_E_OUT_OF_MEMORY;
	}
	if (result == CUPTI_OK)
		return PROTON_OK;
	context->is_kept = true;
	return refuse(context, result, call, err);
}

int pcs_context_enable(struct pcs_context *context, struct proton_error *err)
{
	if (!pcs_claim_take(context))
		return refuse(context, CUPTI_E_HARDWARE_BUSY, "", err);
	cupti_api_preload_host();
	context->period = pcs_mode.period;
	context->is_serialized = pcs_mode.is_serialized;
	context->is_started = context->is_kept = false;
	int status = enable_context(context, err);
	if (status != PROTON_OK && !context->is_kept)
		pcs_claim_release(context);
	if (status != PROTON_OK)
		return status;
	int result = pcs_context_begin(context);
	if (result == CUPTI_OK)
		return PROTON_OK;
	/*
	 * Another process samples this GPU, say. Disabling would end the captures of other threads,
	 * which may be older than the session and so are not known.
	 */
	context->is_kept = true;
	return refuse(context, result, "cuptiPCSamplingStart", err);
}

/* Returns CUPTI's result. */
int pcs_context_begin(struct pcs_context *context)
{
	struct pcs_params params = params_of(context);

	if (context->is_started)
		return CUPTI_OK;
	int result = pcs_mode.windows.length_ns ? libcupti.cuptiPCSamplingStart(&params) : CUPTI_OK;
	if (result != CUPTI_OK)
		return result;
	context->is_started = true;
	pcs_windows_begin(context, clock_monotonic_ns());
	return CUPTI_OK;
}

void pcs_context_end(struct pcs_context *context)
{
	struct pcs_params params = params_of(context);

	if (!context->is_started)
		return;
	context->is_started = false;
	if (pcs_mode.windows.length_ns)
		libcupti.cuptiPCSamplingStop(&params);
	/* Samples are taken until it returns. */
	pcs_windows_end(context->id, clock_monotonic_ns());
}

void pcs_context_forget(struct pcs_context *context)
{
	put_spare(context->configured);
	pcs_claim_release(context);
	context->configured = NULL;
	context->context = NULL;
	context->is_full = false;
}

size_t pcs_context_read(struct pcs_context *context)
{
	struct pcs_data_params params = {
		.size = PARAMS_BYTES(struct pcs_data_params, data),
		.context = context->context,
		.data = out,
	};
	size_t count = 0;

	for (uint32_t i = 0; i < READS_MAX; i++) {
		clear_data(out);
		int result = libcupti.cuptiPCSamplingGetData(&params);
		if (result == CUPTI_E_OUT_OF_MEMORY || out->is_full) {
			if (result == CUPTI_OK)
				pcs_take(context, out);
			context->is_full = true;
			break;
		}
		if (result == CUPTI_E_INVALID_CONTEXT)
			pcs_context_forget(context); /* it was destroyed */
		if (result != CUPTI_OK)
			break;
		count += out->count;
		pcs_take(context, out);
		if (!out->remaining)
			break;
	}
	return count;
}

/* Reads until nothing more arrives, after sampling was stopped. */
static void read_rest(struct pcs_context *context)
{
	/* Each call returns what was decoded; a call that returns nothing is the end. */
	for (uint32_t i = 0; i < READS_MAX; i++) {
		uint64_t before = pcs_statistics.samples + pcs_statistics.profiler;

		pcs_context_read(context);
		if (context->is_full || !context->context ||
		    pcs_statistics.samples + pcs_statistics.profiler == before)
			return;
	}
}

/* Adds what CUPTI hands over. */
static void disable(struct pcs_context *context)
{
	struct pcs_params params = params_of(context);

	clear_data(context->configured);
	int result = libcupti.cuptiPCSamplingDisable(&params);
	pcs_windows_end(context->id, clock_monotonic_ns());
	if (result == CUPTI_OK)
		pcs_take(context, context->configured);
	/* A context that was destroyed is gone for CUPTI too. */
	if (result == CUPTI_OK || result == CUPTI_E_INVALID_CONTEXT)
		pcs_context_forget(context);
}

void pcs_context_finish(struct pcs_context *context)
{
	if (pcs_mode.windows.length_ns) {
		pcs_context_end(context);
		read_rest(context);
	} else if (!context->is_full) {
		pcs_context_read(context);
	}
	pcs_statistics.full += context->is_full;
	if (context->context)
		disable(context);
}

/* After a full buffer, CUPTI delivers little until the context is disabled and enabled. */
void pcs_context_raise_period(struct pcs_context *context)
{
	struct pcs_params params = params_of(context);
	bool was_started = context->is_started;
	uint32_t before = context->period;
	struct proton_error err;

	pcs_statistics.full++;
	context->is_full = false;
	pcs_context_end(context);
	clear_data(context->configured);
	if (libcupti.cuptiPCSamplingDisable(&params) != CUPTI_OK) {
		message("PC sampling has ended: CUPTI cannot decode the samples in time, and "
			"cuptiPCSamplingDisable failed");
		pcs_context_forget(context);
		return;
	}
	pcs_take(context, context->configured);
	/* Dense samples fill the buffer again before half of them helps. */
	context->period += context->period < PCS_PERIOD_DENSE ? 2 : 1;
	if (context->period > PCS_PERIOD_MAX)
		context->period = PCS_PERIOD_MAX;
	if (enable_context(context, &err) != PROTON_OK) {
		message("PC sampling has ended: %s", err.text);
		pcs_context_forget(context);
		return;
	}
	message("PC samples came faster than CUPTI can decode them, and some were lost; the "
		"interval was raised from %llu to %llu cycles",
		1ull << before, 1ull << context->period);
	if (was_started && pcs_context_begin(context) != CUPTI_OK)
		message_once("PC sampling has ended: cuptiPCSamplingStart failed");
}
