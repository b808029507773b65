/* PC sampling with bare CUPTI. See cupti_floor.h. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cuda/cupti_api.h"
#include "base/clock.h"
#include "cupti_floor.h"
#include "driver/driver.h"
#include "measuring.h"

#define CONFIGURED_PCS 30000u
#define READ_PCS 8192u
#define SCRATCH_BYTES (16u << 20)
#define MOMENT_US 1000u

static void *context;
static size_t reason_count;
/* CUPTI's own buffer, and the one of a read. Neither is freed: CUPTI's threads may be late. */
static struct pcs_data *configured;
static struct pcs_data *read_buffer;

static pthread_t reader;
static bool has_reader;
static unsigned read_ms;
static _Atomic bool must_end;
static _Atomic unsigned long samples;
static _Atomic unsigned long not_of_user;
static _Atomic unsigned long read_ns;
static _Atomic bool was_full;

static struct pcs_params params_here(void)
{
	return (struct pcs_params){.size = PARAMS_BYTES(struct pcs_params, context),
				   .context = context};
}

static void check(int result, const char *call)
{
	char text[128];

	if (result == CUPTI_OK)
		return;
	snprintf(text, sizeof(text), "%s: error %d", call, result);
	die(text);
}

static struct pcs_data *new_data(size_t count)
{
	struct pcs_data *data = calloc(1, sizeof(*data));
	struct pcs_reason *reasons = calloc(count * reason_count, sizeof(*reasons));

	if (data)
		*data = (struct pcs_data){.size = sizeof(*data),
					  .capacity = count,
					  .pcs = calloc(count, sizeof(*data->pcs))};
	if (!data || !data->pcs || !reasons)
		die("no memory");
	for (size_t i = 0; i < count; i++)
		data->pcs[i] = (struct pcs_pc){.size = sizeof(*data->pcs),
					       .reasons = reasons + i * reason_count};
	return data;
}

static void make_buffers(void)
{
	struct pcs_reason_count_params counting = {
		.size = PARAMS_BYTES(struct pcs_reason_count_params, count),
		.context = context,
		.count = &reason_count,
	};

	check(libcupti.cuptiPCSamplingGetNumStallReasons(&counting),
	      "cuptiPCSamplingGetNumStallReasons");
	if (configured)
		return;
	configured = new_data(CONFIGURED_PCS);
	read_buffer = new_data(READ_PCS);
}

static void configure(unsigned period, unsigned sleep_ms)
{
	struct pcs_attribute attributes[] = {
		{.type = PCS_ATTRIBUTE_COLLECTION_MODE, .value.number = PCS_CONTINUOUS},
		{.type = PCS_ATTRIBUTE_PERIOD, .value.number = period},
		{.type = PCS_ATTRIBUTE_BUFFER, .value.pointer = configured},
		{.type = PCS_ATTRIBUTE_SCRATCH_BYTES, .value.bytes = SCRATCH_BYTES},
		{.type = PCS_ATTRIBUTE_WORKER_SLEEP_MS, .value.number = sleep_ms},
		{.type = PCS_ATTRIBUTE_START_STOP, .value.number = 1},
	};
	struct pcs_attributes_params params = {
		.size = sizeof(params),
		.context = context,
		.count = sizeof(attributes) / sizeof(attributes[0]),
		.attributes = attributes,
	};

	check(libcupti.cuptiPCSamplingSetConfigurationAttribute(&params),
	      "cuptiPCSamplingSetConfigurationAttribute");
}

static void count(const struct pcs_data *data)
{
	atomic_fetch_add(&samples, data->samples);
	atomic_fetch_add(&not_of_user, data->non_user);
	if (data->is_full)
		atomic_store(&was_full, true);
}

static void clear(struct pcs_data *data)
{
	data->count = data->remaining = 0;
	data->samples = data->non_user = 0;
	data->is_full = 0;
}

static void read_all(void)
{
	struct pcs_data_params params = {
		.size = PARAMS_BYTES(struct pcs_data_params, data),
		.context = context,
		.data = read_buffer,
	};
	uint64_t begin_ns = clock_monotonic_ns();
	int result;

	do {
		clear(read_buffer);
		result = libcupti.cuptiPCSamplingGetData(&params);
		count(read_buffer);
	} while (result == CUPTI_OK && read_buffer->remaining);
	if (result != CUPTI_OK)
		atomic_store(&was_full, true);
	atomic_fetch_add(&read_ns, clock_monotonic_ns() - begin_ns);
}

static void *read_often(void *unused)
{
	unsigned waited_ms = 0;

	while (!atomic_load(&must_end)) {
		usleep(MOMENT_US);
		if (++waited_ms < read_ms)
			continue;
		read_all();
		waited_ms = 0;
	}
	return unused;
}

void floor_sample(unsigned period, unsigned sleep_ms, int interval_ms)
{
	struct pcs_params params;
	struct proton_error err;

	if (driver_load_cuda(0, &err) != PROTON_OK)
		die(err.text);
	cupti_api_preload_host();
	if (libcuda.cuCtxGetCurrent(&context) != 0 || !context)
		die("no CUDA context");
	params = params_here();
	check(libcupti.cuptiPCSamplingEnable(&params), "cuptiPCSamplingEnable");
	make_buffers();
	configure(period, sleep_ms);
	if (interval_ms < 0)
		return;
	check(libcupti.cuptiPCSamplingStart(&params), "cuptiPCSamplingStart");
	read_ms = (unsigned)interval_ms;
	atomic_store(&must_end, false);
	has_reader = read_ms && pthread_create(&reader, NULL, read_often, NULL) == 0;
}

void floor_sample_stop(void)
{
	struct pcs_params params = params_here();

	if (!context)
		return;
	atomic_store(&must_end, true);
	if (has_reader)
		pthread_join(reader, NULL);
	has_reader = false;
	libcupti.cuptiPCSamplingStop(&params); /* fails if it was not started */
	clear(configured);
	check(libcupti.cuptiPCSamplingDisable(&params), "cuptiPCSamplingDisable");
	count(configured);
	context = NULL;
}

void floor_sampled(unsigned long taken[4])
{
	taken[0] = atomic_exchange(&samples, 0);
	taken[1] = atomic_exchange(&not_of_user, 0);
	taken[2] = atomic_exchange(&read_ns, 0);
	taken[3] = atomic_exchange(&was_full, false);
}
