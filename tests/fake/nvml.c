/*
 * Fake libnvidia-ml with the GPU that the fake libcuda numbers 0. As the comments of nvml.h 12.9
 * say: nothing works before nvmlInit_v2() (NVML_ERROR_UNINITIALIZED), a bus id without a GPU is
 * NVML_ERROR_NOT_FOUND, and what a GPU cannot measure is NVML_ERROR_NOT_SUPPORTED. Tests set the
 * values by the names of fake_nvml_set(); FAKE_NVML is a list of them, "sm=1980,milliwatts=700000".
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "driver/gpu_state.h"
#include "fake/fake_nvml.h"

#define E_UNINITIALIZED 1
#define E_NOT_SUPPORTED 3
#define E_NOT_FOUND 6
#define E_UNKNOWN 999

static const char *const names[] = {FAKE_NVML_NAMES};
#define VALUES (sizeof(names) / sizeof(names[0]))

static _Atomic unsigned long long values[VALUES];
static _Atomic bool is_set[VALUES]; /* others are not supported */
static _Atomic bool is_initialized;
static _Atomic unsigned samples;

void fake_nvml_set(const char *name, unsigned long long value)
{
	for (size_t i = 0; i < VALUES; i++) {
		if (strncmp(names[i], name, strlen(names[i])) != 0)
			continue;
		values[i] = value;
		is_set[i] = true;
	}
}

unsigned fake_nvml_samples(void)
{
	return samples;
}

static int read_value(const char *name, unsigned long long *out)
{
	for (size_t i = 0; i < VALUES; i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		*out = values[i];
		return !is_initialized ? E_UNINITIALIZED : is_set[i] ? 0 : E_NOT_SUPPORTED;
	}
	return E_UNKNOWN;
}

static int read_number(const char *name, unsigned *out)
{
	unsigned long long value = 0;
	int result = read_value(name, &value);

	*out = (unsigned)value;
	return result;
}

#define X(name, version, is_needed, arguments) int name##version arguments;
#include "driver/nvml_functions.def"
#undef X

int nvmlInit_v2(void)
{
	const char *given = getenv("FAKE_NVML");

	for (; given; given = strchr(given, ',') ? strchr(given, ',') + 1 : NULL)
		fake_nvml_set(given, strtoull(strchr(given, '=') + 1, NULL, 0));
	is_initialized = !getenv("FAKE_NVML_BROKEN");
	return is_initialized ? 0 : E_UNKNOWN;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
	*device = &values;
	return !is_initialized ? E_UNINITIALIZED : strcmp(id, "0000:4e:00.0") ? E_NOT_FOUND : 0;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
	return read_number(type == NVML_CLOCK_SM ? "sm" : "memory", mhz);
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
	return read_number("celsius", celsius);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
	return read_number("milliwatts", milliwatts);
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
	return read_number("limit", milliwatts);
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
	return read_value("millijoules", millijoules);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
	int result = read_number("processes", count);

	return result || !*count ? result : NVML_ERROR_INSUFFICIENT_SIZE;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
	samples++;
	return read_value("reasons", reasons);
}
