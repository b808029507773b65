/* Kernel times measured by hardware (HES). */
#include "backend/cuda/kernel_times.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cupti_api.h"
#include "base/message.h"
#include "driver/driver.h"

/* Compute capability of the first GPUs with the hardware event system. */
#define BLACKWELL_MAJOR 10

static bool is_wanted;
static bool is_requested;

int kernel_times_read(bool *wants_hardware_out, struct proton_error *err)
{
	const char *text = getenv("PROTON_KERNEL_TIMES");

	is_wanted = text && strcmp(text, "hardware") == 0;
	is_requested = false;
	if (text && *text && !is_wanted && strcmp(text, "software") != 0)
		return err_set(err, PROTON_E_INVALID,
			       "PROTON_KERNEL_TIMES=%.40s is not known; set it to software or "
			       "hardware, or unset it",
			       text);
	*wants_hardware_out = is_wanted;
	return PROTON_OK;
}

/* False only if the driver is initialized and every GPU is too old. */
static bool may_have_hardware(void)
{
	int count = 0;
	int major;

	if (libcuda.cuDeviceGetCount(&count) != 0 || count <= 0)
		return true;
	for (int i = 0; i < count; i++)
		if (libcuda.cuDeviceGetAttribute(&major, DRIVER_ATTRIBUTE_CC_MAJOR, i) != 0 ||
		    major >= BLACKWELL_MAJOR)
			return true;
	return false;
}

bool kernel_times_request(void)
{
	const char *text = NULL;
	uint8_t on = 1;
	size_t size = sizeof(on);
	int result;

	if (!is_wanted)
		return false;
	if (!may_have_hardware()) {
		message("kernel times are measured by software: no GPU of this machine can measure "
			"them by hardware, which needs compute capability 10.0 or later");
		return false;
	}
	result = libcupti.cuptiActivitySetAttribute_v2(NULL, CUPTI_ATTRIBUTE_HARDWARE_TIMES, &size,
						       &on);
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
