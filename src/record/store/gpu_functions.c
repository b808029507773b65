/* Table of GPU functions. */
#include "base/mutex.h"
#include "record/store/devices.h"

#include <stdlib.h>

#include "base/hash.h"

#define CHUNK 1024u /* functions of one allocation: they never move */

pthread_mutex_t gpu_functions_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct gpu_function *_Atomic chunks[FUNCTION_MAX / CHUNK];
static uint32_t count = 1;    /* id 0 is none */
static struct hash_table ids; /* by CRC and name */

static struct gpu_function *function_at(uint32_t id)
{
	/* acquire: pairs with the release in append_function(); a lock or a use gave the id */
	return atomic_load_explicit(&chunks[id / CHUNK], memory_order_acquire) + id % CHUNK;
}

/* A copy of the function at the end of the table; 0: no space. */
static uint32_t append_function(uint64_t crc, const char *name, uint32_t length)
{
	struct gpu_function *chunk =
		atomic_load_explicit(&chunks[count / CHUNK], memory_order_relaxed);
	char *copy = strndup(name, length);

	if (!copy)
		return 0;
	if (!chunk)
		chunk = calloc(CHUNK, sizeof(*chunk));
	if (!chunk) {
		free(copy);
		return 0;
	}
	chunk[count % CHUNK] = (struct gpu_function){crc, copy, length};
	atomic_store_explicit(&chunks[count / CHUNK], chunk, memory_order_release);
	return count++;
}

uint32_t gpu_functions_add(uint64_t crc, const char *name)
{
	uint32_t length = (uint32_t)strnlen(name, 1u << 16);
	uint64_t hash = hash_bytes(name, length) ^ hash_u64(crc);
	uint64_t next = hash;
	uint32_t id;

	MUTEX_HOLD(&gpu_functions_lock);
	do
		id = hash_table_next(&ids, hash, &next);
	while (id && (function_at(id)->crc != crc || function_at(id)->length != length ||
		      memcmp(function_at(id)->name, name, length) != 0));
	if (!id && count < FUNCTION_MAX && hash_table_reserve(&ids, 1)) {
		id = append_function(crc, name, length);
		if (id)
			hash_table_add(&ids, hash, id);
	}
	return id;
}

const struct gpu_function *gpu_functions_get(uint32_t id)
{
	return function_at(id);
}
