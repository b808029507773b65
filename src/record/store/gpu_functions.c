/* Table of GPU functions. */
#include "record/store/devices.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/region.h"

pthread_mutex_t gpu_functions_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct region space;   /* functions by id; a lock or a use gives others the id */
static uint32_t count = 1;    /* id 0 is none */
static struct hash_table ids; /* by CRC and name */

static struct gpu_function *function_at(uint32_t id)
{
	return (struct gpu_function *)space.base + id;
}

/* A copy of the function at the end of the table; 0: no space. */
static uint32_t append_function(uint64_t crc, const char *name, uint32_t length)
{
	char *copy;

	if (!space.base && region_reserve(&space, FUNCTION_MAX * sizeof(struct gpu_function),
					  1 << 16, 1, NULL) != PROTON_OK)
		return 0;
	if (!region_reaches(&space, (count + 1ull) * sizeof(struct gpu_function)))
		return 0;
	copy = strndup(name, length);
	if (!copy)
		return 0;
	*function_at(count) = (struct gpu_function){crc, copy, length};
	return count++;
}

uint32_t gpu_functions_add(uint64_t crc, const char *name)
{
	uint32_t length = (uint32_t)strnlen(name, 1u << 16);
	uint64_t hash = hash_bytes(name, length) ^ hash_u64(crc);
	uint64_t next = hash;
	uint32_t id;

	pthread_mutex_lock(&gpu_functions_lock);
	do
		id = hash_table_next(&ids, hash, &next);
	while (id && (function_at(id)->crc != crc || function_at(id)->length != length ||
		      memcmp(function_at(id)->name, name, length) != 0));
	if (!id && count < FUNCTION_MAX && hash_table_reserve(&ids, 1)) {
		id = append_function(crc, name, length);
		if (id)
			hash_table_add(&ids, hash, id);
	}
	pthread_mutex_unlock(&gpu_functions_lock);
	return id;
}

const struct gpu_function *gpu_functions_get(uint32_t id)
{
	return function_at(id);
}
