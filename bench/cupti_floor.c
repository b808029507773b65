/* Bare CUPTI. See cupti_floor.h. */
#include "cupti_floor.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cupti_api.h"
#include "base/array.h"
#include "measuring.h"

#define FLOOR_SLOTS (1u << 20)
#define FLOOR_BUFFER_BYTES (4u << 20)

/* Triton launches with the second, the runtime with either. */
static const uint32_t floor_calls[] = {
	CUPTI_CALL_LAUNCH_KERNEL,
	CUPTI_CALL_LAUNCH_KERNEL_EX,
	CUPTI_CALL_GRAPH_LAUNCH,
};

static void *floor_subscriber;
static uint32_t floor_table[FLOOR_SLOTS];
static unsigned long floor_records;

static void floor_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
	const struct cupti_callback_data *api_call = data;

	(void)user;
	(void)domain;
	(void)call;
	if (api_call->site == CUPTI_SITE_ENTER)
		floor_table[api_call->correlation_id % FLOOR_SLOTS] = api_call->correlation_id;
}

static void floor_requested(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	*buffer = aligned_alloc(4096, FLOOR_BUFFER_BYTES);
	*bytes = FLOOR_BUFFER_BYTES;
	*max_records = 0;
}

static void floor_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			    size_t valid_bytes)
{
	struct cupti_activity *record = NULL;

	(void)context;
	(void)stream;
	(void)bytes;
	while (valid_bytes &&
	       libcupti.cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_OK)
		floor_records++;
	free(buffer);
}

bool floor_is_possible(void)
{
	const char *interface = getenv("PROTON_CUPTI_INTERFACE");

	return !interface || strcmp(interface, "2") != 0;
}

void floor_start(void)
{
	struct proton_error err;

	if (cupti_api_load(&err) != PROTON_OK)
		die(err.text);
	if (libcupti.cuptiSubscribe(&floor_subscriber, floor_callback, NULL) ||
	    libcupti.cuptiActivityRegisterCallbacks(floor_requested, floor_completed))
		die("CUPTI cannot be started");
	for (size_t i = 0; i < ARRAY_LENGTH(floor_calls); i++) {
		if (libcupti.cuptiEnableCallback(1, floor_subscriber, CUPTI_DOMAIN_DRIVER_API,
						 floor_calls[i]))
			die("CUPTI cannot be started");
	}
	if (libcupti.cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL))
		die("CUPTI cannot be started");
}

void floor_stop(void)
{
	libcupti.cuptiActivityFlushAll(0);
	libcupti.cuptiActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL);
	libcupti.cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
	libcupti.cuptiUnsubscribe(floor_subscriber);
}

unsigned long floor_recorded(void)
{
	return floor_records;
}
