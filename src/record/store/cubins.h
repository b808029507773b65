/*
 * Cubins of the process's modules, kept for the profiles of PC sampling. A profile takes a copy of
 * a cubin when it gets samples of it.
 *
 * Their total size is limited. Cubins without samples are dropped first, the oldest ones before
 * others: the backend can get them again while their modules are loaded.
 */
#ifndef RECORD_STORE_CUBINS_H
#define RECORD_STORE_CUBINS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUBINS_MAX_BYTES (128ull << 20)
/* Maximum size of all cubins in one profile. */
#define CUBINS_PROFILE_MAX_BYTES (64ull << 20)

enum cubin_state {
	CUBIN_UNKNOWN,
	CUBIN_KEPT,
	CUBIN_TOO_LARGE,
};

/* Keeps a copy of a cubin. False if it is known, too large, or out of memory. */
bool cubins_add(uint64_t crc, const void *bytes, size_t length);
/* A cubin was sampled: it is not dropped. */
enum cubin_state cubins_sampled(uint64_t crc);
/*
 * Calls `use` with the content of a cubin, if it is kept. A number that increases whenever one is
 * added tells whether it is worth asking again.
 */
enum cubin_state cubins_read(uint64_t crc,
			     void (*use)(void *user, const void *bytes, size_t length), void *user);
uint32_t cubins_generation(void);

extern pthread_mutex_t cubins_lock; /* for fork() */

#endif
