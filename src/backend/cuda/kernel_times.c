/* Kernel times measured by hardware (HES). */
#include "backend/cuda/kernel_times.h"

#include <inttypes.h>
#include <string.h>

#include "backend/cuda/cupti_api.h"
#include "base/environment.h"
#include "base/message.h"
#include "driver/driver.h"

/* Compute capability of the first GPUs with the hardware event system. */
#define BLACKWELL_MAJOR 10

enum wish {
	WISH_NONE,
	WISH_SOFTWARE,
	WISH_HARDWARE,
};

static enum wish wish;
static bool is_requested;
static bool was_chosen;                /* without a wish */
static bool is_refused;                /* they were tried in this process, and did not work */
static _Atomic uint64_t missing_times; /* records without times, since the request */

int kernel_times_read(bool *wants_hardware_out, struct proton_error *err)
{
	const char *text = environment_get("PROTON_KERNEL_TIMES");

	wish = !text || !*text                 ? WISH_NONE
	       : strcmp(text, "hardware") == 0 ? WISH_HARDWARE
					       : WISH_SOFTWARE;
	is_requested = false;
	was_chosen = false;
	if (wish == WISH_SOFTWARE && strcmp(text, "software") != 0)
		return err_set(err, PROTON_E_INVALID,
			       "PROTON_KERNEL_TIMES=%.40s is not known; set it to software or "
			       "hardware, or unset it",
			       text);
	*wants_hardware_out = wish == WISH_HARDWARE;
	return PROTON_OK;
}

/* The number of GPUs; 0 if the driver is not initialized. *old_out: how many are too old. */
static int count_gpus(int *old_out)
{
	int count = 0;
	int major;

	*old_out = 0;
	if (libcuda.cuDeviceGetCount(&count) != 0 || count <= 0)
		return 0;
	for (int i = 0; i < count; i++)
		*old_out += libcuda.cuDeviceGetAttribute(&major, DRIVER_ATTRIBUTE_CC_MAJOR, i) ==
				    0 &&
			    major < BLACKWELL_MAJOR;
	return count;
}

/* False only if the driver is initialized and every GPU is too old. */
static bool may_have_hardware(void)
{
	int old;
	int count = count_gpus(&old);

	return !count || old < count;
}

/* The kernels of a context that exists are measured as before. */
static bool has_context(int gpus)
{
	void *current = NULL;
	unsigned flags;
	int is_active;

	if (!libcuda.cuDevicePrimaryCtxGetState || !libcuda.cuCtxGetCurrent ||
	    libcuda.cuCtxGetCurrent(&current) != 0 || current)
		return true;
	for (int i = 0; i < gpus; i++)
		if (libcuda.cuDevicePrimaryCtxGetState(i, &flags, &is_active) != 0 || is_active)
			return true;
	return false;
}

/* In CUPTI, for all subscribers. Its result. */
static int set_hardware(uint8_t is_on)
{
	size_t size = sizeof(is_on);

	return libcupti.cuptiActivitySetAttribute_v2(NULL, CUPTI_ATTRIBUTE_HARDWARE_TIMES, &size,
						     &is_on);
}

bool kernel_times_choose(void)
{
	int old;
	int gpus = count_gpus(&old);

	if (wish != WISH_NONE || is_refused || !gpus || old || has_context(gpus))
		return false;
	was_chosen = is_requested = set_hardware(1) == CUPTI_OK;
	is_refused = !is_requested;
	atomic_store(&missing_times, 0);
	return is_requested;
}

bool kernel_times_request(void)
{
	const char *text = NULL;

	if (wish != WISH_HARDWARE)
		return false;
	if (!may_have_hardware()) {
		message("kernel times are measured by software: no GPU of this machine can measure "
			"them by hardware, which needs compute capability 10.0 or later");
		return false;
	}
	int result = set_hardware(1);
	if (result == CUPTI_OK) {
		is_requested = true;
		return true;
	}
	if (libcupti.cuptiGetResultString(result, &text) != CUPTI_OK || !text)
		text = "unknown error";
	message("kernel times are measured by software: CUPTI refused hardware times (%s); start "
		"recording before the program creates a CUDA context",
		text);
	return false;
}

void kernel_times_withdraw(bool is_finalized)
{
	if (is_requested && !is_finalized)
		set_hardware(0);
	is_refused |= was_chosen;
	is_requested = was_chosen = false;
}

void kernel_times_note_missing(void)
{
	/* relaxed: a sum, read after the last record */
	atomic_fetch_add_explicit(&missing_times, 1, memory_order_relaxed);
}

void kernel_times_check(void)
{
	uint64_t missing = atomic_load(&missing_times);

	if (!was_chosen || !missing)
		return;
	is_refused = true;
	message("kernels without a time, which was measured by hardware: %" PRIu64 "; later "
		"sessions of this process measure by software; set PROTON_KERNEL_TIMES=software to "
		"begin with it",
		missing);
}

bool kernel_times_are_hardware(void *subscriber)
{
	uint8_t on = 0;
	size_t size = sizeof(on);

	if (!is_requested || !subscriber || !may_have_hardware())
		return false;
	if (!libcupti.cuptiActivityGetAttribute_v2)
		return true;
	return libcupti.cuptiActivityGetAttribute_v2(subscriber, CUPTI_ATTRIBUTE_HARDWARE_TIMES,
						     &size, &on) == CUPTI_OK &&
	       on == 1;
}
