/* Buffer pool: allocates device memory in slabs and hands out cleared buffers. */
#include "backend/intra/device_buffers.h"

#include <stdlib.h>

#include "base/mutex.h"
#include "driver/driver.h"

#define BYTES_MIN ((size_t)64 << 10)

/* Size of an allocation for several buffers, and maximum number of buffers in it. */
#define SLAB_BYTES ((size_t)32 << 20)
#define SLAB_BUFFERS 16u

/* One device allocation, divided into buffers. */
struct slab {
	uint64_t address;
	void *context;
	uint32_t count;
	uint32_t unused_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *unused;
static size_t all_bytes; /* including buffers in use */

/* Which buffer fits a launch that requests `asked` bytes better; both are large enough. */
static bool is_better(const struct buffer *one, const struct buffer *other, size_t asked)
{
	if ((one->asked_bytes == asked) != (other->asked_bytes == asked))
		return one->asked_bytes == asked;
	if (one->bytes != other->bytes)
		return one->bytes < other->bytes;
	return !one->shape.cta_bytes && other->shape.cta_bytes;
}

/* Takes an unused buffer of at least `bytes`. The lock is held. */
static struct buffer *find_unused(size_t bytes, size_t asked, void *context)
{
	struct buffer **best = NULL;

	for (struct buffer **at = &unused; *at && (!best || (*best)->asked_bytes != asked);
	     at = &(*at)->next)
		if ((*at)->context == context && (*at)->bytes >= bytes &&
		    (!best || is_better(*at, *best, asked)))
			best = at;
	if (!best)
		return NULL;
	struct buffer *found = *best;
	*best = found->next;
	found->next = NULL;
	found->slab->unused_count--;
	return found;
}

/* Rounds to steps of a quarter, so launches of similar sizes share buffers. */
static size_t round_up(size_t bytes)
{
	size_t step = BYTES_MIN;

	while (bytes > step * 4)
		step *= 2;
	return (bytes + step - 1) / step * step;
}

/* ------------------------------------------------------------------ slabs */

/* Frees the slab and its buffers, and its device memory if its context exists. The lock is held. */
static void free_slab(struct slab *slab, bool is_there)
{
	for (struct buffer **at = &unused; *at;) {
		struct buffer *buffer = *at;

		if (buffer->slab != slab) {
			at = &buffer->next;
			continue;
		}
		*at = buffer->next;
		all_bytes -= buffer->bytes;
		if (is_there)
			driver.cuEventDestroy(buffer->event);
		free(buffer);
	}
	if (is_there)
		driver.cuMemFree(slab->address);
	free(slab);
}

/* A slab without buffers in use. The lock is held. */
static struct slab *find_idle(void)
{
	for (struct buffer *buffer = unused; buffer; buffer = buffer->next)
		if (buffer->slab->unused_count == buffer->slab->count)
			return buffer->slab;
	return NULL;
}

/* Reserves `bytes` of the limit, freeing unused slabs if necessary. */
static bool claim_bytes(size_t bytes)
{
	struct slab *idle;

	if (bytes > DEVICE_BUFFERS_BYTES_MAX)
		return false;
	MUTEX_HOLD(&lock);
	while (all_bytes + bytes > DEVICE_BUFFERS_BYTES_MAX && (idle = find_idle()))
		free_slab(idle, true);
	bool is_free = all_bytes + bytes <= DEVICE_BUFFERS_BYTES_MAX;
	if (is_free)
		all_bytes += bytes;
	return is_free;
}

static void unclaim(size_t bytes)
{
	MUTEX_HOLD(&lock);
	all_bytes -= bytes;
}

static struct buffer *cut_buffer(struct slab *slab, uint32_t index, size_t bytes, void *context)
{
	struct buffer *buffer = calloc(1, sizeof(*buffer));

	if (!buffer)
		return NULL;
	buffer->slab = slab;
	buffer->launch.buffer = buffer;
	buffer->address = slab->address + index * bytes;
	buffer->bytes = bytes;
	buffer->context = context;
	if (driver.cuEventCreate(&buffer->event, DRIVER_EVENT_QUIET) == 0)
		return buffer;
	free(buffer);
	return NULL;
}

/* Zeroes the memory and waits, so the buffers can be used on any stream. */
static bool zero_memory(uint64_t address, size_t bytes)
{
	void *stream = NULL;
	bool is_ok = driver.cuStreamCreate(&stream, DRIVER_STREAM_NON_BLOCKING) == 0 &&
		     driver.cuMemsetD8Async(address, 0, bytes, stream) == 0 &&
		     driver.cuStreamSynchronize(stream) == 0;

	if (stream)
		driver.cuStreamDestroy(stream);
	return is_ok;
}

/* `count` buffers of `bytes` bytes in one allocation, as a list; NULL on failure. */
static struct buffer *make_buffers(size_t bytes, uint32_t count, void *context)
{
	struct slab *slab = calloc(1, sizeof(*slab));
	struct buffer *list = NULL;
	struct buffer *buffer;

	if (!slab || !claim_bytes(bytes * count)) {
		free(slab);
		return NULL;
	}
	slab->context = context;
	bool is_there = driver.cuMemAlloc(&slab->address, bytes * count) == 0;
	if (is_there && zero_memory(slab->address, bytes * count))
		while (slab->count < count &&
		       (buffer = cut_buffer(slab, slab->count, bytes, context))) {
			buffer->next = list;
			list = buffer;
			slab->count++;
		}
	unclaim(bytes * (count - slab->count));
	if (list)
		return list;
	if (is_there)
		driver.cuMemFree(slab->address);
	free(slab);
	return NULL;
}

/* Allocates several buffers for the next launches, or one if memory is short. */
static struct buffer *make_some(size_t bytes, void *context)
{
	uint32_t count = bytes < SLAB_BYTES ? (uint32_t)(SLAB_BYTES / bytes) : 1;
	struct buffer *list =
		make_buffers(bytes, count < SLAB_BUFFERS ? count : SLAB_BUFFERS, context);

	return list || count == 1 ? list : make_buffers(bytes, 1, context);
}

/* ------------------------------------------------------------------ buffers */

struct buffer *device_buffers_take(size_t asked, bool is_of_graph)
{
	size_t bytes = round_up(asked);
	struct buffer *buffer = NULL;
	void *context = NULL;

	if (driver.cuCtxGetCurrent(&context) != 0 || !context)
		return NULL;
	if (!is_of_graph) {
		MUTEX_HOLD(&lock);
		buffer = find_unused(bytes, asked, context);
	}
	if (!buffer) {
		int mode = driver_own_begin();

		buffer = is_of_graph ? make_buffers(bytes, 1, context) : make_some(bytes, context);
		driver_own_end(mode);
	}
	if (!buffer)
		return NULL;
	while (buffer->next) {
		struct buffer *spare = buffer->next;

		buffer->next = spare->next;
		device_buffers_give(spare);
	}
	buffer->asked_bytes = asked;
	buffer->is_of_graph = is_of_graph;
	return buffer;
}

void device_buffers_give(struct buffer *buffer)
{
	MUTEX_HOLD(&lock);
	buffer->slab->unused_count++;
	buffer->next = unused;
	unused = buffer;
}

/* Its slab never becomes idle, so the device memory is never freed. */
void device_buffers_drop(struct buffer *buffer)
{
	unclaim(buffer->bytes);
	free(buffer);
}

void device_buffers_empty(void)
{
	struct slab *idle;
	void *popped;

	MUTEX_HOLD(&lock);
	while ((idle = find_idle())) {
		bool is_there = driver.cuCtxPushCurrent(idle->context) == 0;

		free_slab(idle, is_there);
		if (is_there)
			driver.cuCtxPopCurrent(&popped);
	}
}

void device_buffers_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	unused = NULL;
	all_bytes = 0;
}
