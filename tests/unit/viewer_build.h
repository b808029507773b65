/* Support for viewer tests: short functions that build profiles. */
#pragma once

#include <string.h>

#include "model/profile.h"

static inline uint32_t build_node(struct profile *profile, uint32_t parent, const char *name)
{
	struct row_frame frame = {.kind = FRAME_NAME,
				  .name = profile_string(profile, name, strlen(name))};

	return profile_node(profile, parent, profile_frame(profile, frame));
}

static inline uint32_t build_source(struct profile *profile, uint32_t parent, const char *file,
				    uint32_t line, const char *function)
{
	struct row_frame frame = {
		.kind = FRAME_SOURCE,
		.file = profile_string(profile, file, strlen(file)),
		.name = profile_string(profile, function, strlen(function)),
		.line = line,
	};

	return profile_node(profile, parent, profile_frame(profile, frame));
}

/* `count` runs of `total_ns` together on a device, e.g. "CUDA", 0. */
static inline void build_kernel(struct profile *profile, uint32_t node, const char *type,
				uint32_t id, uint64_t count, uint64_t total_ns)
{
	uint32_t device = profile_device(profile, profile_string(profile, type, strlen(type)), id);
	struct profile_kernel *kernel = profile_kernel(profile, node, device);

	kernel->count = count;
	kernel->total_ns = total_ns;
	kernel->min_ns = total_ns / count / 2;
	kernel->max_ns = total_ns / count * 2;
}

static inline void build_number(struct profile *profile, uint32_t node, const char *name,
				uint16_t flags, double value)
{
	uint32_t metric = profile_metric(profile, profile_string(profile, name, strlen(name)),
					 PROTON_METRIC_DOUBLE, flags);

	profile_value(profile, node, metric)->as.float64 = value;
}

static inline void build_device(struct profile *profile, const char *type, uint32_t id,
				const char *arch, uint64_t clock_khz, uint64_t memory_clock_khz,
				uint64_t bus_width_bits, uint64_t processors)
{
	uint32_t index = profile_device(profile, profile_string(profile, type, strlen(type)), id);
	uint32_t arch_string = profile_string(profile, arch, strlen(arch));
	struct row_device *device = &profile->devices[index];

	device->arch = arch_string;
	device->clock_khz = clock_khz;
	device->memory_clock_khz = memory_clock_khz;
	device->bus_width_bits = bus_width_bits;
	device->processors = processors;
}
