/* Controls of the fake libnvidia-ml. */
#pragma once

/* No name begins with another one. */
#define FAKE_NVML_NAMES                                                                            \
	"sm", "memory", "celsius", "milliwatts", "limit", "millijoules", "reasons", "processes"

void fake_nvml_set(const char *name, unsigned long long value);
/* How often the GPU was sampled. */
unsigned fake_nvml_samples(void);
