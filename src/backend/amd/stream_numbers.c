/* Numbers of HIP streams: an open-addressing table, written once per stream under a lock. */
#include "backend/amd/stream_numbers.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"

#define PLACES (2u * (STREAM_NUMBER_MAX + 1)) /* a power of two */

/* `number` is written before `handle`, which is stored with release. */
static struct {
	_Atomic uint64_t handle; /* 0: unused */
	uint32_t number;
} places[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards writing, and: */
static uint32_t count;

/* The place of `handle`, or the unused one where it belongs. The table is never full. */
static uint32_t find_stream(uint64_t handle, uint64_t *found_out)
{
	uint32_t at = (uint32_t)hash_u64(handle) % PLACES;

	for (;; at = (at + 1) % PLACES) {
		*found_out = atomic_load_explicit(&places[at].handle, memory_order_acquire);
		if (!*found_out || *found_out == handle)
			return at;
	}
}

static uint32_t add_stream(uint64_t handle)
{
	uint32_t number = STREAM_NUMBER_MAX;
	uint64_t found;
	uint32_t at;

	pthread_mutex_lock(&lock);
	at = find_stream(handle, &found);
	if (found) {
		number = places[at].number;
	} else if (count < STREAM_NUMBER_MAX - 1) {
		number = ++count;
		places[at].number = number;
		atomic_store_explicit(&places[at].handle, handle, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return number;
}

uint32_t stream_numbers_get(uint64_t handle)
{
	uint64_t found;
	uint32_t at;

	if (!handle)
		return 0;
	at = find_stream(handle, &found);
	return found ? places[at].number : add_stream(handle);
}

void stream_numbers_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}
