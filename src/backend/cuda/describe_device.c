/*
 * Profile info of the CUDA backend: versions, GPUs, overhead. The number of GPUs is known after the
 * program has initialized CUDA. This file never does that, because it would break programs that
 * fork first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "driver/driver.h"

typedef void (*add_fn)(void *user, const char *key, const char *value);

static void add_number(add_fn add, void *user, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	add(user, key, text);
}

/*
 * Adds the driver's version: the first word that begins with a digit in "NVRM version: NVIDIA UNIX
 * x86_64 Kernel Module  580.65.06  Sun Jul ...".
 */
static void add_kernel_module(add_fn add, void *user)
{
	FILE *file = fopen("/proc/driver/nvidia/version", "re");
	char line[256] = "";
	char *rest = line;

	if (!file)
		return;
	if (!fgets(line, sizeof(line), file))
		*line = '\0';
	fclose(file);
	for (char *word; (word = strsep(&rest, " \t\n"));) {
		if (*word >= '0' && *word <= '9' && strchr(word, '.')) {
			add(user, "nvidia_driver", word);
			return;
		}
	}
}

void describe_cuda(const struct cupti_api *api, add_fn add, void *user)
{
	char text[32];
	int count = 0;

	cupti_version_text(api->version, text, sizeof(text));
	add(user, "cupti", text);
	add(user, "cupti_path", api->path);
	snprintf(text, sizeof(text), "%d.%d", api->driver / 1000, api->driver % 1000 / 10);
	add(user, "cuda_driver", text);
	add_kernel_module(add, user);
	if (libcuda.cuDeviceGetCount(&count) == 0 && count > 0)
		add_number(add, user, "gpus", (uint64_t)count);
	add_number(add, user, "overhead_callbacks_ns", callbacks_cost_ns());
	add_number(add, user, "overhead_records_ns", activity_cost_ns());
}
