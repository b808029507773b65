/*
 * The range profiler of the fake libcupti, as measured with CUPTI 13.0 on an H200 unless another
 * source is named:
 *
 * - Metrics that do not fit into one pass: more than three of tensor operations, some of these
 *   alone, and instructions beside anything else. The names are GH100's (the host library's list).
 * - A range has the work of all threads while it is open. Ranges of the same name are merged.
 * - If the image takes fewer ranges, the first ones are kept, and the others vanish without a
 *   report.
 * - Records of measured launches have times that are too long (double here).
 * - A push waits for the context, and a wait ends captures in any mode: here it ends the process.
 * - Not tried, so refused here: another configuration of a profiler. And cuptiFinalize() in a
 *   process that has used the range profiler ends the process.
 *
 * The work of a kernel is in its name: "bf16", "fp16", "tf32", "int8" have tensor operations, "fma"
 * those of vectors, all by the number of blocks in x.
 *
 * Environment: FAKE_RANGE_US, how long a push takes (default 0).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake/cupti_state.h"
#include "fake/entries.h"

#define E_INVALID_PARAMETER 1
#define E_INVALID_OPERATION 7
#define E_NOT_SUPPORTED 27
#define MAGIC 0x52414e47u
#define RANGES 256u
#define IMAGE_BYTES 64u
#define DEVICES 8u

#define TENSOR "sm__ops_path_tensor_"
#define VECTOR "sm__sass_thread_inst_executed_op_"

/* The work of a kernel, per block. */
static const struct {
	const char *name;   /* the base metric */
	const char *kernel; /* a part of the kernel's name; NULL: all kernels */
	double value;
	uint32_t passes;
} metrics[] = {
	{"sm__cycles_elapsed", NULL, 100, 1},
	{"dram__bytes_read", NULL, 4096, 1},
	{"dram__bytes_write", NULL, 2048, 1},
	{"lts__t_bytes", NULL, 16384, 1},
	{"sm__warps_active", NULL, 0, 1},
	{"sm__pipe_tensor_cycles_active", "16", 7, 1},
	{"sm__pipe_tensor_cycles_active", "32", 7, 1},
	{"sm__pipe_tensor_cycles_active", "int8", 7, 1},
	{TENSOR "src_bf16_dst_fp32", "bf16", 2e6, 1},
	{TENSOR "src_fp16", "fp16", 2e6, 2},
	{TENSOR "op_hgmma_src_fp16", "none", 0, 1},
	{TENSOR "op_hmma_src_fp16", "fp16", 2e6, 2},
	{TENSOR "op_hmma_src_fp16_dst_fp16", "none", 0, 1},
	{TENSOR "op_hmma_src_fp16_dst_fp32", "fp16", 2e6, 1},
	{TENSOR "src_fp8", "none", 0, 1},
	{TENSOR "src_fp8_sparsity_off", "none", 0, 1},
	{TENSOR "src_tf32_dst_fp32", "tf32", 1e6, 1},
	{TENSOR "src_int8", "int8", 4e6, 2},
	{TENSOR "op_igmma_src_int8", "int8", 4e6, 1},
	{TENSOR "op_imma_src_int8", "none", 0, 2},
	{TENSOR "op_imma_src_int8_sparsity_off", "none", 0, 1},
	{TENSOR "op_imma_src_int8_sparsity_on", "none", 0, 1},
	{VECTOR "fadd_pred_on", "fma", 500, 1},
	{VECTOR "ffma_pred_on", "fma", 1000, 1},
	{VECTOR "memory_pred_on", NULL, 3, 1},
};
#define METRICS (sizeof(metrics) / sizeof(metrics[0]))

struct range {
	char name[32];
	double values[METRICS];
	double time;
};

struct profiler {
	void *context; /* NULL: not enabled */
	struct image *image;
	uint32_t capacity;
	uint8_t config[128];
	size_t config_bytes;
	bool is_started;
	bool is_open;
	uint32_t count;
	struct range ranges[RANGES];
};

/* A counter data image. */
struct image {
	uint32_t magic;
	uint32_t count;
	struct range ranges[RANGES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct profiler profilers[DEVICES];
static _Atomic uint32_t pushes;
static bool was_used;
static uint32_t refusals; /* ranges that a decoding loses */

static bool is_base(const char *name, const char *base)
{
	size_t length = strlen(base);

	return strncmp(name, base, length) == 0 && name[length] == '.';
}

bool range_has_metric(const char *name)
{
	for (size_t i = 0; i < METRICS; i++)
		if (is_base(name, metrics[i].name))
			return true;
	return false;
}

void range_add_load(const char *name, struct range_load *load)
{
	uint32_t passes = 1;

	for (size_t i = 0; i < METRICS; i++)
		if (is_base(name, metrics[i].name))
			passes = metrics[i].passes;
	load->passes = passes > load->passes ? passes : load->passes;
	load->tensor += strstr(name, TENSOR) || strstr(name, "pipe_tensor");
	load->vector += strstr(name, VECTOR) != NULL;
	load->all++;
}

uint32_t range_passes(const struct range_load *load)
{
	bool is_mixed = load->vector && load->vector < load->all;

	return load->passes > 1 || load->tensor > 3 || is_mixed ? 2 : 1;
}

int fake_cuptiProfilerHostGetBaseMetrics(struct host_names_params *params)
{
	static const char *names[METRICS];

	for (size_t i = 0; i < METRICS; i++)
		names[i] = metrics[i].name;
	params->names = names;
	params->count = METRICS;
	return 0;
}

bool range_evaluate(const struct host_evaluate_params *params)
{
	const struct image *image = (const void *)params->image;

	if (image->magic != MAGIC)
		return false;
	for (size_t i = 0; i < params->count; i++) {
		params->values[i] = strstr(params->names[i], "warps")            ? 50
				    : strstr(params->names[i], "peak_sustained") ? 5120
										 : 0;
		for (size_t k = 0; k < METRICS && params->values[i] == 0; k++)
			if (is_base(params->names[i], metrics[k].name))
				params->values[i] += image->ranges[params->index].values[k];
	}
	return true;
}

int fake_cuptiProfilerGetCounterAvailability(struct range_availability_params *params)
{
	if (params->image && params->image_bytes < IMAGE_BYTES)
		return E_INVALID_PARAMETER;
	if (params->image)
		memset(params->image, 0xa5, IMAGE_BYTES);
	params->image_bytes = IMAGE_BYTES;
	return 0;
}

static void fail(const char *call, const char *why)
{
	fprintf(stderr, "fake: %s %s\n", call, why);
	abort();
}

int fake_cuptiRangeProfilerEnable(struct range_enable_params *params)
{
	subscribe_use("cuptiRangeProfilerEnable");
	for (size_t i = 0; i < DEVICES; i++) {
		if (profilers[i].context)
			continue;
		memset(&profilers[i], 0, sizeof(profilers[i]));
		profilers[i].context = params->context;
		was_used = true;
		params->profiler = &profilers[i];
		return 0;
	}
	return E_INVALID_OPERATION;
}

int fake_cuptiRangeProfilerDisable(struct range_params *params)
{
	struct profiler *profiler = params->profiler;

	if (!profiler->context)
		return E_INVALID_OPERATION;
	profiler->context = NULL;
	return 0;
}

int fake_cuptiRangeProfilerGetCounterDataSize(struct range_data_size_params *params)
{
	params->bytes = sizeof(struct image);
	return params->nodes < params->ranges ? E_INVALID_PARAMETER : 0;
}

int fake_cuptiRangeProfilerCounterDataImageInitialize(struct range_data_begin_params *params)
{
	struct image *image = (void *)params->image;

	*image = (struct image){.magic = MAGIC};
	return params->bytes < sizeof(*image) ? E_INVALID_PARAMETER : 0;
}

int fake_cuptiRangeProfilerSetConfig(struct range_config_params *params)
{
	struct profiler *profiler = params->profiler;
	struct host_passes_params passes = {.bytes = params->config_bytes,
					    .image = (uint8_t *)(uintptr_t)params->config};
	int result = fake_cuptiProfilerHostGetNumOfPasses(&passes);
	struct image *image = (void *)params->image;

	if (result != 0 || !profiler->context || params->range != RANGE_OF_USER ||
	    params->replay != RANGE_USER_REPLAY || params->levels != 1 || params->level != 1 ||
	    image->magic != MAGIC || image->count || params->ranges > RANGES)
		return E_INVALID_PARAMETER;
	if (passes.passes != 1)
		return E_NOT_SUPPORTED;
	if (profiler->config_bytes &&
	    memcmp(profiler->config, params->config, profiler->config_bytes) != 0)
		return E_INVALID_OPERATION;
	if (params->config_bytes > sizeof(profiler->config))
		return E_INVALID_PARAMETER;
	memcpy(profiler->config, params->config, params->config_bytes);
	profiler->config_bytes = params->config_bytes;
	profiler->image = image;
	profiler->capacity = (uint32_t)params->ranges;
	profiler->count = 0;
	return 0;
}

int fake_cuptiRangeProfilerStart(struct range_params *params)
{
	struct profiler *profiler = params->profiler;

	if (!profiler->image || profiler->is_started)
		return E_INVALID_OPERATION;
	profiler->is_started = true;
	return 0;
}

int fake_cuptiRangeProfilerStop(struct range_stop_params *params)
{
	struct profiler *profiler = params->profiler;

	if (!profiler->is_started || profiler->is_open)
		return E_INVALID_OPERATION;
	profiler->is_started = false;
	params->is_all = 1;
	return 0;
}

int fake_cuptiRangeProfilerPushRange(struct range_push_params *params)
{
	struct profiler *profiler = params->profiler;
	const char *sleeps_us = getenv("FAKE_RANGE_US");
	int result = 0;

	if (sleeps_us)
		usleep((useconds_t)strtoul(sleeps_us, NULL, 10));
	if (subscribe_captures())
		fail("cuptiRangeProfilerPushRange", "while a stream is captured");
	pthread_mutex_lock(&lock);
	if (!profiler->is_started || profiler->is_open || profiler->count == RANGES) {
		result = E_INVALID_OPERATION;
	} else {
		struct range *range = &profiler->ranges[profiler->count++];

		*range = (struct range){.time = 0};
		snprintf(range->name, sizeof(range->name), "%s", params->name);
		profiler->is_open = true;
		pushes++;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int fake_cuptiRangeProfilerPopRange(struct range_params *params)
{
	struct profiler *profiler = params->profiler;
	bool was_open = profiler->is_open;

	if (subscribe_captures())
		fail("cuptiRangeProfilerPopRange", "while a stream is captured");
	profiler->is_open = false;
	return was_open ? 0 : E_INVALID_OPERATION;
}

/* The range of that name in the image, or a new one. */
static struct range *range_in(struct image *image, const char *name)
{
	for (uint32_t i = 0; i < image->count; i++)
		if (strcmp(image->ranges[i].name, name) == 0)
			return &image->ranges[i];
	snprintf(image->ranges[image->count].name, sizeof(image->ranges[0].name), "%s", name);
	return &image->ranges[image->count++];
}

int fake_cuptiRangeProfilerDecodeData(struct range_decode_params *params)
{
	struct profiler *profiler = params->profiler;

	if (profiler->is_started || !profiler->image)
		return E_INVALID_OPERATION;
	for (uint32_t i = 0; i < profiler->count && i < profiler->capacity; i++) {
		struct range *range;

		if (refusals && refusals--)
			continue;
		range = range_in(profiler->image, profiler->ranges[i].name);
		for (size_t k = 0; k < METRICS; k++)
			range->values[k] += profiler->ranges[i].values[k];
	}
	profiler->count = 0;
	return 0;
}

int fake_cuptiRangeProfilerGetCounterDataInfo(struct range_data_info_params *params)
{
	params->count = ((const struct image *)(const void *)params->image)->count;
	return 0;
}

int fake_cuptiRangeProfilerCounterDataGetRangeInfo(struct range_info_params *params)
{
	const struct image *image = (const void *)params->image;

	if (params->index >= image->count)
		return E_INVALID_PARAMETER;
	params->name = image->ranges[params->index].name;
	return 0;
}

bool range_launch(const char *name, uint32_t blocks)
{
	bool is_measured = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < DEVICES; i++) {
		struct profiler *profiler = &profilers[i];

		if (!profiler->is_open || !name)
			continue;
		is_measured = true;
		for (size_t k = 0; k < METRICS; k++)
			if (!metrics[k].kernel || strstr(name, metrics[k].kernel))
				profiler->ranges[profiler->count - 1].values[k] +=
					metrics[k].value * blocks;
	}
	pthread_mutex_unlock(&lock);
	return is_measured;
}

void range_reset(void)
{
	if (was_used)
		fail("cuptiFinalize", "after the range profiler was used");
}

void range_context_destroyed(const void *context)
{
	for (size_t i = 0; i < DEVICES; i++)
		if (profilers[i].context == context)
			profilers[i].context = NULL;
}

FAKE_EXPORT uint32_t fake_ranges(void)
{
	return pushes;
}

FAKE_EXPORT void fake_ranges_lose(uint32_t count)
{
	refusals = count;
}

FAKE_EXPORT bool fake_ranges_are_idle(void)
{
	for (size_t i = 0; i < DEVICES; i++)
		if (profilers[i].context)
			return false;
	return fake_pm_is_idle();
}
