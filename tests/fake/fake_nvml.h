/* Controls of the fake libnvidia-ml. */
#ifndef TESTS_FAKE_FAKE_NVML_H
#define TESTS_FAKE_FAKE_NVML_H

/* No name begins with another one. */
#define FAKE_NVML_NAMES "sm", "memory", "celsius", "milliwatts", "limit", "millijoules", "reasons"

void fake_nvml_set(const char *name, unsigned long long value);
/* How often the GPU was sampled. */
unsigned fake_nvml_samples(void);

#endif
