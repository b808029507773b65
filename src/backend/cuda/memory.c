/* Memory copies and memsets, only on request: each record costs the application's threads time. */
#include "backend/cuda/memory.h"

#include "backend/cuda/interface.h"
#include "backend/gpu/records.h"
#include "base/array.h"
#include "driver/driver.h"

enum {
	CALL_COPY = 1,
	CALL_BATCH = 2,
};

#define CALL_MAX 1024u

static const uint8_t call_kinds[CALL_MAX] = {
#define M(name, number) [number] = CALL_COPY,
#define B(name, number) [number] = CALL_BATCH,
#include "backend/cuda/memory_calls.def"
#undef M
#undef B
};

static _Atomic bool is_wanted_now;

static const int kinds[] = {CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMCPY_PEER, CUPTI_KIND_MEMSET};

bool memory_is_call(uint32_t call)
{
	return call < CALL_MAX && call_kinds[call];
}

bool memory_is_batch(uint32_t call)
{
	return call < CALL_MAX && call_kinds[call] == CALL_BATCH;
}

bool memory_is_wanted(void)
{
	/* relaxed: a call at the moment of a change may be on either side */
	return atomic_load_explicit(&is_wanted_now, memory_order_relaxed);
}

/* The callbacks stay enabled: callbacks.c. */
static void disable(void)
{
	atomic_store(&is_wanted_now, false);
	for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++)
		interface_disable(kinds[i]);
}

int memory_set(void *subscriber, bool is_wanted, struct proton_error *err)
{
	uint32_t known = 0;
	int result = CUPTI_OK;

	if (!is_wanted) {
		disable();
		return PROTON_OK;
	}
	atomic_store(&is_wanted_now, true);
	/* Callbacks first: copies from here on have their context before their record arrives. */
	for (uint32_t call = 0; call < CALL_MAX; call++) {
		if (!call_kinds[call])
			continue;
		int one =
			libcupti.cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER_API, call);
		known += one == CUPTI_OK;
		if (one != CUPTI_OK)
			result = one; /* older versions of CUPTI do not have the newest calls */
	}
	if (!known) {
		disable();
		return cupti_api_error(result, "cuptiEnableCallback", err);
	}
	for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
		result = interface_enable(kinds[i]);
		if (result != CUPTI_OK) {
			disable();
			return interface_enable_error(result, err);
		}
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ records */

/* The three records have the same fields up to the stream. */
static struct execution common(const struct cupti_memcpy *record)
{
	return (struct execution){
		.is_memory = true,
		.device = gpu_device_of_cuda(record->device_id),
		.stream = record->stream_id,
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.bytes = record->bytes,
	};
}

_Static_assert(offsetof(struct cupti_memcpy, stream_id) ==
			       offsetof(struct cupti_memcpy_peer, stream_id) &&
		       offsetof(struct cupti_memcpy, stream_id) ==
			       offsetof(struct cupti_memset, stream_id),
	       "common prefix");

bool memory_read(const struct cupti_activity *record, struct memory_operation *out)
{
	const struct cupti_memcpy *copy = (const void *)record;
	const struct cupti_memcpy_peer *peer = (const void *)record;
	const struct cupti_memset *set = (const void *)record;

	switch (record->kind) {
	case CUPTI_KIND_MEMCPY:
		out->execution = common(copy);
		out->execution.frame = memory_operations_copy_frame(
			copy->copy_kind, copy->source_kind, copy->destination_kind);
		out->execution.correlation = copy->correlation_id;
		out->graph_node_id = copy->graph_node_id;
		return true;
	case CUPTI_KIND_MEMCPY_PEER:
		out->execution = common(copy);
		out->execution.frame = memory_operations_copy_frame(
			peer->copy_kind, peer->source_kind, peer->destination_kind);
		out->execution.correlation = peer->correlation_id;
		out->graph_node_id = peer->graph_node_id;
		return true;
	case CUPTI_KIND_MEMSET:
		out->execution = common(copy);
		out->execution.frame = memory_operations_set_frame(set->memory_kind);
		out->execution.is_set = true;
		out->execution.correlation = set->correlation_id;
		out->graph_node_id = set->graph_node_id;
		return true;
	default:
		return false;
	}
}
