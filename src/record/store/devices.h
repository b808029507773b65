/* Table of the process's devices, shared by all sessions. Ids are small and never reused. */
#ifndef RECORD_STORE_DEVICES_H
#define RECORD_STORE_DEVICES_H

#include <pthread.h>
#include <stdint.h>

#define DEVICE_MAX 256u
#define DEVICE_NONE UINT32_MAX

struct device {
	char type[16]; /* "CUDA", "HIP", "CPU" */
	uint32_t id;   /* ordinal within its type */
	char arch[32];
	char name[96];
	uint64_t clock_khz;
	uint64_t memory_clock_khz;
	uint64_t bus_width_bits;
	uint64_t processors;
	char uuid[48]; /* "GPU-..."; "": unknown, as the next one */
	char pci[16];  /* domain:bus:device.function */
};

extern pthread_mutex_t devices_lock; /* for fork() */

/* The id of the device of this type and ordinal, added if new; DEVICE_NONE above DEVICE_MAX. */
uint32_t devices_add(const struct device *device);
const struct device *devices_get(uint32_t device);

#endif
