/*
 * Host profiler and PM sampling of the fake libcupti, as measured with CUPTI 13.0 on an H200:
 *
 * - A metric that the chip lacks fails the whole cuptiProfilerHostConfigAddMetrics() with UNKNOWN,
 *   and the host object refuses everything afterwards.
 * - Metrics of separate calls get a pass each; more than one pass is refused by SetConfig.
 * - A second Enable of a device is an INVALID_OPERATION.
 * - The first sample begins long before Start.
 * - A full hardware buffer takes no more; the flag is in the next decoding.
 * - Decoding needs an image that was made fresh, and stops when that is full.
 *
 * Environment: FAKE_PM_CHIP, "GH100" (default) with the names of its Triage set, or another one
 * with plain names alone; FAKE_PM_ROOM, metrics per pass (default 12); FAKE_PM_HARDWARE, samples
 * that the hardware buffer holds (default 4096).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake/cupti_state.h"
#include "fake/entries.h"

#define E_INVALID_PARAMETER 1
#define E_INVALID_OPERATION 7
#define E_NOT_SUPPORTED 27
#define E_UNKNOWN 999
#define MAGIC 0x504d5344u
#define NAMES 32u
#define IMAGE_BYTES 64u

struct host {
	uint32_t magic;
	uint32_t calls;
	uint32_t count;
	uint32_t type;
	struct range_load load; /* for the range profiler */
	bool is_spoiled;
};

/* A counter data image. */
struct image {
	uint32_t magic;
	uint32_t capacity;
	uint32_t count;
	uint64_t first; /* number of its first sample */
};

static struct {
	bool is_enabled;
	bool is_configured;
	bool is_started;
	bool was_full;
	uint64_t start_ns;
	uint64_t interval_ns;
	uint64_t taken; /* samples that were decoded or lost */
} pm;

static uint32_t hosts; /* live ones */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static const char *chip(void)
{
	const char *text = getenv("FAKE_PM_CHIP");

	return text ? text : "GH100";
}

/* No GPU of a fake has NVLink, and dramc is GH100's name. */
static bool has_metric(const char *name)
{
	bool is_triage = strstr(name, ".TriageCompute.");

	if (strstr(name, "nvl"))
		return false;
	return strcmp(chip(), "GH100") == 0 ? !is_triage || !strstr(name, ".dram__") : !is_triage;
}

FAKE_EXPORT bool fake_pm_is_idle(void)
{
	return !pm.is_enabled && !hosts;
}

int fake_cuptiDeviceGetChipName(struct host_chip_params *params)
{
	params->chip = chip();
	return params->device < 2 ? 0 : E_INVALID_PARAMETER;
}

int fake_cuptiPmSamplingGetCounterAvailability(struct pm_availability_params *params)
{
	if (params->image && params->image_bytes < IMAGE_BYTES)
		return E_INVALID_PARAMETER;
	if (params->image)
		memset(params->image, 0xa5, IMAGE_BYTES);
	params->image_bytes = IMAGE_BYTES;
	return 0;
}

int fake_cuptiProfilerHostInitialize(struct host_begin_params *params)
{
	struct host *host = calloc(1, sizeof(*host));

	if (!host || params->type > HOST_PM_SAMPLING || strcmp(params->chip, chip()) != 0 ||
	    !params->availability || params->availability[IMAGE_BYTES - 1] != 0xa5) {
		free(host);
		return E_INVALID_PARAMETER;
	}
	host->magic = MAGIC;
	host->type = params->type;
	hosts++;
	params->host = host;
	return 0;
}

int fake_cuptiProfilerHostDeinitialize(struct host_end_params *params)
{
	free(params->host);
	hosts--;
	return 0;
}

int fake_cuptiProfilerHostConfigAddMetrics(struct host_metrics_params *params)
{
	struct host *host = params->host;

	for (size_t i = 0; i < params->count; i++) {
		host->is_spoiled |= host->type == HOST_RANGE_PROFILER
					    ? !range_has_metric(params->names[i])
					    : !has_metric(params->names[i]);
		range_add_load(params->names[i], &host->load);
	}
	if (host->is_spoiled)
		return E_UNKNOWN;
	host->calls++;
	host->count += (uint32_t)params->count;
	return 0;
}

int fake_cuptiProfilerHostGetConfigImageSize(struct host_config_size_params *params)
{
	params->bytes = sizeof(struct host);
	return 0;
}

int fake_cuptiProfilerHostGetConfigImage(struct host_config_params *params)
{
	if (params->bytes < sizeof(struct host))
		return E_INVALID_PARAMETER;
	memcpy(params->image, params->host, sizeof(struct host));
	return 0;
}

int fake_cuptiProfilerHostGetNumOfPasses(struct host_passes_params *params)
{
	const struct host *host = (const void *)params->image;

	if (params->bytes != sizeof(*host) || host->magic != MAGIC)
		return E_INVALID_PARAMETER;
	if (host->type == HOST_RANGE_PROFILER) {
		params->passes = host->calls - 1 + range_passes(&host->load);
		return 0;
	}
	params->passes = host->calls + (host->count > number("FAKE_PM_ROOM", 12));
	return 0;
}

int fake_cuptiPmSamplingEnable(struct pm_enable_params *params)
{
	if (pm.is_enabled)
		return E_INVALID_OPERATION;
	memset(&pm, 0, sizeof(pm));
	pm.is_enabled = true;
	params->sampling = &pm;
	return 0;
}

int fake_cuptiPmSamplingDisable(struct pm_params *params)
{
	if (!pm.is_enabled || pm.is_started || params->sampling != &pm)
		return E_INVALID_OPERATION;
	pm.is_enabled = false;
	return 0;
}

int fake_cuptiPmSamplingSetConfig(struct pm_set_config_params *params)
{
	struct host_passes_params passes = {.bytes = params->bytes,
					    .image = (uint8_t *)(uintptr_t)params->image};
	int result = fake_cuptiProfilerHostGetNumOfPasses(&passes);

	if (result != 0 || !pm.is_enabled || params->trigger != PM_TRIGGER_TIME)
		return E_INVALID_PARAMETER;
	if (passes.passes != 1)
		return E_NOT_SUPPORTED;
	pm.is_configured = true;
	pm.interval_ns = params->interval;
	return 0;
}

int fake_cuptiPmSamplingGetCounterDataSize(struct pm_data_size_params *params)
{
	params->bytes = sizeof(struct image) + params->samples;
	return 0;
}

int fake_cuptiPmSamplingCounterDataImageInitialize(struct pm_data_begin_params *params)
{
	struct image *image = (void *)params->image;

	*image = (struct image){.magic = MAGIC,
				.capacity = (uint32_t)(params->bytes - sizeof(*image))};
	return 0;
}

int fake_cuptiPmSamplingStart(struct pm_params *params)
{
	if (!pm.is_configured || pm.is_started || params->sampling != &pm)
		return E_INVALID_OPERATION;
	pm.is_started = true;
	pm.start_ns = now_ns();
	return 0;
}

int fake_cuptiPmSamplingStop(struct pm_params *params)
{
	if (!pm.is_started || params->sampling != &pm)
		return E_INVALID_OPERATION;
	pm.is_started = false;
	return 0;
}

int fake_cuptiPmSamplingDecodeData(struct pm_decode_params *params)
{
	struct image *image = (void *)params->image;
	uint64_t room = number("FAKE_PM_HARDWARE", 4096);
	uint64_t left = (now_ns() - pm.start_ns) / pm.interval_ns - pm.taken;

	if (params->image_bytes < sizeof(*image) || image->magic != MAGIC || image->count)
		return E_INVALID_PARAMETER; /* not a fresh image */
	if (left > room) {
		pm.was_full = true;
		pm.taken += left - room; /* they are lost */
		left = room;
	}
	image->first = pm.taken;
	image->count = (uint32_t)(left < image->capacity ? left : image->capacity);
	pm.taken += image->count;
	params->stop_reason = left > image->count ? PM_STOP_BUFFER_FULL : PM_STOP_BUFFER_FULL + 1;
	params->overflow = pm.was_full;
	pm.was_full = false;
	return 0;
}

int fake_cuptiPmSamplingGetCounterDataInfo(struct pm_data_info_params *params)
{
	const struct image *image = (const void *)params->image;

	params->total = image->capacity;
	params->populated = params->completed = image->count;
	return 0;
}

int fake_cuptiPmSamplingCounterDataGetSampleInfo(struct pm_sample_info_params *params)
{
	const struct image *image = (const void *)params->image;
	uint64_t index = image->first + params->index;

	params->end_ns = pm.start_ns + (index + 1) * pm.interval_ns;
	params->start_ns = params->end_ns - (index ? pm.interval_ns : 3000000000u);
	return params->index < image->count ? 0 : E_INVALID_PARAMETER;
}

/*
 * Percent: the length of the name, and 20 more in every second sample. Bytes: 1000 for each letter:
 * all names have different values.
 */
int fake_cuptiProfilerHostEvaluateToGpuValues(struct host_evaluate_params *params)
{
	const struct image *image = (const void *)params->image;
	const struct host *host = params->host;

	if (host->is_spoiled || params->count != host->count)
		return E_INVALID_PARAMETER;
	if (range_evaluate(params))
		return 0;
	for (size_t i = 0; i < params->count; i++) {
		double letters = (double)strlen(params->names[i]);
		bool is_odd = (image->first + params->index) % 2;

		params->values[i] = strstr(params->names[i], "bytes") ? letters * 1000
								      : letters / 2 + is_odd * 20;
	}
	return 0;
}
