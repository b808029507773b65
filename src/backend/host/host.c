/*
 * Host backend: kernels that run on the CPU, such as kernels of Triton's interpreter. The runtime
 * reports their begin and end (proton_kernel_begin(), proton_kernel_end()); this file only
 * describes the device.
 */
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "driver/amd_gpus.h"
#include "record/backend.h"
#include "record/record.h"

static bool is_usable(void)
{
	return true;
}

static int check_mode(const char *mode, struct proton_error *err)
{
	return *mode ? backend_refuse_mode("host", mode, err) : PROTON_OK;
}

/* The processor's name from Linux; empty if unknown. */
static void read_processor_name(char *name, size_t capacity)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];

	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		char *value = strchr(line, ':');

		if (!value || strncmp(line, "model name", 10) != 0)
			continue;
		value += strspn(value, ": \t");
		value[strcspn(value, "\n")] = '\0';
		snprintf(name, capacity, "%s", value);
		break;
	}
	fclose(file);
}

static int start_host(const char *mode, struct proton_error *err)
{
	struct device device = {.type = "CPU"};
	struct utsname system;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (uname(&system) == 0)
		snprintf(device.arch, sizeof(device.arch), "%.31s", system.machine);
	read_processor_name(device.name, sizeof(device.name));
	device.processors = cores > 0 ? (uint64_t)cores : 0;
	record_set_host_device(devices_add(&device));
	return PROTON_OK;
}

static int flush_host(struct proton_error *err)
{
	return PROTON_OK; /* a kernel is recorded when it ends, on the thread that ran it */
}

static void stop_host(void)
{
}

const struct backend host_backend = {
	.name = "host",
	.is_usable = is_usable,
	.check_mode = check_mode,
	.start = start_host,
	.flush = flush_host,
	.no_kernels = amd_gpus_problem,
	.stop = stop_host,
};
