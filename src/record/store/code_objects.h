/*
 * Code objects of the process's modules, kept for the profiles of PC sampling. A profile takes a
 * copy of a code object when it gets samples of it.
 *
 * Their total size is limited. Code objects without samples are dropped first, the oldest ones
 * before others: the backend can get them again while their modules are loaded.
 */
#ifndef RECORD_STORE_CODE_OBJECTS_H
#define RECORD_STORE_CODE_OBJECTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/*
 * Calls `use` with the content of a code object, if it is kept. A number that increases whenever
 * one is added tells whether it is worth asking again.
 */
enum code_object_state code_objects_read(uint64_t crc,
					 void (*use)(void *user, const void *bytes, size_t length),
					 void *user);
uint32_t code_objects_generation(void);

extern pthread_mutex_t code_objects_lock; /* for fork() */

#endif
