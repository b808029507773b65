/* Table of the process's devices, shared by all sessions. Ids are small and never reused. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
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

/*
 * Table of the process's GPU functions that PC sampling knows, shared by all sessions. A function
 * is identified by the CRC of its code object and its name: Triton gives all specializations of a
 * kernel one name. Ids are small, start at 1 and are never reused.
 */

#define FUNCTION_MAX (1u << 20)

struct gpu_function {
	uint64_t crc;     /* of its code object; 0: not known */
	const char *name; /* mangled */
	uint32_t length;
};

/* The id of a function, added if new; 0 above FUNCTION_MAX or if out of memory. */
uint32_t gpu_functions_add(uint64_t crc, const char *name);
/* The function of an id that gpu_functions_add() returned. */
const struct gpu_function *gpu_functions_get(uint32_t id);

extern pthread_mutex_t gpu_functions_lock; /* for fork() */

/*
 * Code objects of the process's modules, kept for the profiles of PC sampling. A profile takes a
 * copy of a code object when it gets samples of it.
 *
 * Their total size is limited. Code objects without samples are dropped first, the oldest ones
 * before others: the backend can get them again while their modules are loaded.
 */

#define CODE_OBJECTS_MAX_BYTES (128ull << 20)
/* Maximum size of all code objects in one profile. */
#define CODE_OBJECTS_PROFILE_MAX_BYTES (64ull << 20)

enum code_object_state {
	CODE_OBJECT_UNKNOWN,
	CODE_OBJECT_KEPT,
	CODE_OBJECT_TOO_LARGE,
};

/* Keeps a copy of a code object. False if it is known, too large, or out of memory. */
bool code_objects_add(uint64_t crc, const void *bytes, size_t length);
/* A code object was sampled: it is not dropped. */
enum code_object_state code_objects_sampled(uint64_t crc);
/* Calls `use` with a code object's content, if kept; ask again after a new generation. */
enum code_object_state code_objects_read(uint64_t crc,
					 void (*use)(void *user, const void *bytes, size_t length),
					 void *user);
uint32_t code_objects_generation(void);

extern pthread_mutex_t code_objects_lock; /* for fork() */
