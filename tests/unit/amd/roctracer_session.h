/* Support for tests of roctracer alone: ranges, and launches with all that it reports. */
#pragma once

#include "unit/cuda/cuda_session.h"

static struct {
	int (*push)(const char *message);
	int (*pop)(void);
} roctx;

__attribute__((unused)) static void load_roctx(void)
{
	void *library = fake_open("PROTON_ROCTX_PATH");

	fake_find(&roctx.push, library, "roctxRangePushA");
	fake_find(&roctx.pop, library, "roctxRangePop");
}

/* A launch with one record, on the first GPU. */
__attribute__((unused)) static struct fake_hip_launch kernel(const char *name, uint64_t duration_ns)
{
	return (struct fake_hip_launch){
		.call = "hipModuleLaunchKernel",
		.name = name,
		.records = 1,
		.node = NODE_FIRST,
		.start_ns = 1000,
		.end_ns = 1000 + duration_ns,
	};
}
