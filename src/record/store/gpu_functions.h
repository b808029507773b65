/*
 * Table of the process's GPU functions that PC sampling knows, shared by all sessions. A function
 * is identified by the CRC of its code object and its name: Triton gives all specializations of a
 * kernel one name. Ids are small, start at 1 and are never reused.
 */
#ifndef RECORD_STORE_GPU_FUNCTIONS_H
#define RECORD_STORE_GPU_FUNCTIONS_H

#include <pthread.h>
#include <stdint.h>

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

#endif
