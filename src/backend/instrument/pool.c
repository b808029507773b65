/* Buffers on devices. See pool.h. */
#include "backend/instrument/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "backend/instrument/driver.h"

#define BYTES_MIN ((size_t)64 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *unused;
static size_t all_bytes; /* those handed out too */

/* The smallest one that is large enough. The lock is held. */
static struct buffer *find_unused(size_t bytes, void *context)
{
	struct buffer **best = NULL;
	struct buffer *found;

	for (struct buffer **at = &unused; *at; at = &(*at)->next)
		if ((*at)->context == context && (*at)->bytes >= bytes &&
		    (!best || (*at)->bytes < (*best)->bytes))
			best = at;
	if (!best)
		return NULL;
	found = *best;
	*best = found->next;
	return found;
}

/* Sizes in steps of a quarter, so that launches of nearly the same size share buffers. */
static size_t round_up(size_t bytes)
{
	size_t step = BYTES_MIN;

	while (bytes > step * 4)
		step *= 2;
	return (bytes + step - 1) / step * step;
}

/* Room for `bytes` more under the limit, made if need be by giving up what is unused. */
static bool claim(size_t bytes)
{
	bool is_free;

	pthread_mutex_lock(&lock);
	while (all_bytes + bytes > POOL_BYTES_MAX && unused) {
		struct buffer *buffer = unused;

		unused = buffer->next;
		all_bytes -= buffer->bytes;
		driver.cuMemFree_v2(buffer->address);
		driver.cuEventDestroy_v2(buffer->event);
		free(buffer);
	}
	is_free = bytes <= POOL_BYTES_MAX && all_bytes + bytes <= POOL_BYTES_MAX;
	if (is_free)
		all_bytes += bytes;
	pthread_mutex_unlock(&lock);
	return is_free;
}

static void unclaim(size_t bytes)
{
	pthread_mutex_lock(&lock);
	all_bytes -= bytes;
	pthread_mutex_unlock(&lock);
}

static struct buffer *make(size_t bytes, void *context)
{
	struct buffer *buffer = calloc(1, sizeof(*buffer));

	bytes = round_up(bytes);
	if (!buffer || !claim(bytes)) {
		free(buffer);
		return NULL;
	}
	buffer->bytes = bytes;
	buffer->context = context;
	if (driver.cuMemAlloc_v2(&buffer->address, bytes) != 0)
		buffer->address = 0;
	if (buffer->address && driver.cuEventCreate(&buffer->event, DRIVER_EVENT_QUIET) == 0)
		return buffer;
	if (buffer->address)
		driver.cuMemFree_v2(buffer->address);
	unclaim(bytes);
	free(buffer);
	return NULL;
}

struct buffer *pool_take(size_t bytes, uint64_t stream)
{
	struct buffer *buffer;
	void *context = NULL;
	int mode;

	if (driver.cuCtxGetCurrent(&context) != 0 || !context)
		return NULL;
	pthread_mutex_lock(&lock);
	buffer = find_unused(bytes, context);
	pthread_mutex_unlock(&lock);
	if (buffer)
		return buffer;
	mode = driver_enter();
	buffer = make(bytes, context);
	if (buffer &&
	    driver.cuMemsetD8Async(buffer->address, 0, buffer->bytes, driver_handle(stream)) != 0) {
		pool_drop(buffer);
		buffer = NULL;
	}
	driver_leave(mode);
	return buffer;
}

struct buffer *pool_take_for_graph(size_t bytes)
{
	struct buffer *buffer = NULL;
	void *context = NULL;
	void *stream = NULL;
	int mode = driver_enter();

	if (driver.cuCtxGetCurrent(&context) == 0 && context)
		buffer = make(bytes, context);
	if (buffer && (driver.cuStreamCreate(&stream, DRIVER_STREAM_NON_BLOCKING) != 0 ||
		       driver.cuMemsetD8Async(buffer->address, 0, buffer->bytes, stream) != 0 ||
		       driver.cuStreamSynchronize(stream) != 0)) {
		pool_drop(buffer);
		buffer = NULL;
	}
	if (stream)
		driver.cuStreamDestroy_v2(stream);
	driver_leave(mode);
	if (buffer)
		buffer->is_of_graph = true;
	return buffer;
}

void pool_give(struct buffer *buffer)
{
	pthread_mutex_lock(&lock);
	buffer->next = unused;
	unused = buffer;
	pthread_mutex_unlock(&lock);
}

void pool_drop(struct buffer *buffer)
{
	unclaim(buffer->bytes);
	free(buffer);
}

void pool_empty(void)
{
	struct buffer *buffer;
	void *popped;

	pthread_mutex_lock(&lock);
	while ((buffer = unused)) {
		unused = buffer->next;
		all_bytes -= buffer->bytes;
		if (driver.cuCtxPushCurrent_v2(buffer->context) == 0) {
			driver.cuMemFree_v2(buffer->address);
			driver.cuEventDestroy_v2(buffer->event);
			driver.cuCtxPopCurrent_v2(&popped);
		}
		free(buffer);
	}
	pthread_mutex_unlock(&lock);
}

void pool_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	unused = NULL;
	all_bytes = 0;
}
