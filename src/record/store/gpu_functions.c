/* Table of GPU functions. */
#include "record/store/gpu_functions.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define CHUNK 1024u /* functions of one allocation: they never move */

pthread_mutex_t gpu_functions_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct gpu_function *_Atomic chunks[FUNCTION_MAX / CHUNK];
static uint32_t count = 1; /* id 0 is none */
static uint32_t *slots;    /* open addressing: an id, 0 = free */
static uint32_t slot_count;

static uint64_t hash_of(uint64_t crc, const char *name, uint32_t length)
{
	return hash_bytes(name, length) ^ hash_u64(crc);
}

static struct gpu_function *at(uint32_t id)
{
	/* acquire: pairs with the release in append_function(); a lock or a use gave the id */
	return atomic_load_explicit(&chunks[id / CHUNK], memory_order_acquire) + id % CHUNK;
}

static bool grow_slots(void)
{
	uint32_t more = slot_count ? slot_count * 2 : 1024;
	uint32_t *fresh = calloc(more, sizeof(*fresh));

	if (!fresh)
		return false;
	for (uint32_t id = 1; id < count; id++) {
		uint64_t i = hash_of(at(id)->crc, at(id)->name, at(id)->length);

		while (fresh[i % more])
			i++;
		fresh[i % more] = id;
	}
	free(slots);
	slots = fresh;
	slot_count = more;
	return true;
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
	uint32_t id = 0;
	uint64_t i;

	pthread_mutex_lock(&gpu_functions_lock);
	if (count * 2 < slot_count || grow_slots()) {
		for (i = hash_of(crc, name, length); (id = slots[i % slot_count]); i++)
			if (at(id)->crc == crc && at(id)->length == length &&
			    memcmp(at(id)->name, name, length) == 0)
				break;
		if (!id && count < FUNCTION_MAX)
			slots[i % slot_count] = id = append_function(crc, name, length);
	}
	pthread_mutex_unlock(&gpu_functions_lock);
	return id;
}

const struct gpu_function *gpu_functions_get(uint32_t id)
{
	return at(id);
}
