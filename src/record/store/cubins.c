/* Table of cubins. There are a few thousand at most, in order of their arrival. */
#include "record/store/cubins.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

struct cubin {
	uint64_t crc;
	void *bytes; /* NULL: too large, or dropped */
	size_t length;
	bool is_sampled;
	bool is_too_large;
};

pthread_mutex_t cubins_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct cubin *cubins;
static size_t cubin_count;
static size_t cubin_capacity;
static size_t oldest; /* earlier ones are dropped or sampled */
static uint64_t kept_bytes;
static struct map by_crc; /* index + 1 */
static _Atomic uint32_t generation;

/* The entry of a CRC, made if new; NULL if out of memory. */
static struct cubin *entry_of(uint64_t crc)
{
	uint32_t index = crc ? map_find(&by_crc, crc) : 0;

	if (index)
		return &cubins[index - 1];
	if (!crc || !array_reserve(&cubins, &cubin_capacity, cubin_count + 1, sizeof(*cubins)) ||
	    !map_insert(&by_crc, crc, (uint32_t)cubin_count + 1))
		return NULL;
	cubins[cubin_count] = (struct cubin){.crc = crc};
	return &cubins[cubin_count++];
}

static void drop(struct cubin *cubin)
{
	if (cubin->bytes)
		kept_bytes -= cubin->length;
	free(cubin->bytes);
	cubin->bytes = NULL;
}

static bool make_space(size_t length)
{
	if (length > CUBINS_MAX_BYTES)
		return false;
	for (; kept_bytes + length > CUBINS_MAX_BYTES && oldest < cubin_count; oldest++)
		if (!cubins[oldest].is_sampled)
			drop(&cubins[oldest]);
	return kept_bytes + length <= CUBINS_MAX_BYTES;
}

bool cubins_add(uint64_t crc, const void *bytes, size_t length)
{
	struct cubin *cubin;
	bool is_added = false;

	pthread_mutex_lock(&cubins_lock);
	cubin = entry_of(crc);
	if (cubin && !cubin->bytes && length) {
		cubin->is_too_large = !make_space(length);
		cubin->bytes = cubin->is_too_large ? NULL : malloc(length);
		if (cubin->bytes) {
			memcpy(cubin->bytes, bytes, length);
			cubin->length = length;
			kept_bytes += length;
			is_added = true;
			if ((size_t)(cubin - cubins) < oldest)
				oldest = (size_t)(cubin - cubins);
		}
		atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&cubins_lock);
	return is_added;
}

static enum cubin_state state_of(const struct cubin *cubin)
{
	if (cubin && cubin->bytes)
		return CUBIN_KEPT;
	return cubin && cubin->is_too_large ? CUBIN_TOO_LARGE : CUBIN_UNKNOWN;
}

enum cubin_state cubins_sampled(uint64_t crc)
{
	enum cubin_state state;
	struct cubin *cubin;

	pthread_mutex_lock(&cubins_lock);
	cubin = entry_of(crc);
	if (cubin)
		cubin->is_sampled = true;
	state = state_of(cubin);
	pthread_mutex_unlock(&cubins_lock);
	return state;
}

enum cubin_state cubins_read(uint64_t crc,
			     void (*use)(void *user, const void *bytes, size_t length), void *user)
{
	enum cubin_state state;
	struct cubin *cubin;

	pthread_mutex_lock(&cubins_lock);
	cubin = entry_of(crc);
	state = state_of(cubin);
	if (state == CUBIN_KEPT)
		use(user, cubin->bytes, cubin->length);
	pthread_mutex_unlock(&cubins_lock);
	return state;
}

uint32_t cubins_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}
