/*
 * Buffers of the fake librocprofiler-sdk: records are handed over newest first, on a thread of the
 * library, at the watermark or in a flush. A buffer that is full blocks, because it is lossless.
 * Each payload is freed after the callback, and ends in bytes that newer versions appended.
 *
 * Sources, in rocprofiler-sdk 1.0.0 (rocm-systems 1b1610fc): lib/common/container/
 * record_header_buffer.cpp: a buffer has two halves, each with a header of 16 bytes for every byte
 * of its size; a flush reads all headers of one, and writers wait for it. lib/rocprofiler-sdk/
 * buffer.cpp: the number of dropped records is that since the beginning. internal_threading.cpp,
 * 250: the threads are made again in the child of a fork.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fake/sdk_entries.h"
#include "fake/sdk_state.h"

#define RECORD_MAX 512

struct record {
	struct record *next;
	struct sdk_context context;
	uint32_t category;
	uint32_t kind;
	size_t bytes;
	uint64_t ready_ns; /* the kernel has ended */
	uint8_t payload[RECORD_MAX];
};

struct buffer {
	struct sdk_context context;
	size_t bytes;
	size_t watermark;
	sdk_buffer_fn callback;
	void *data;
	struct sdk_record_header *headers[2]; /* one per half; never used */
	struct record *newest;
	size_t used;     /* bytes */
	uint64_t asked;  /* handovers asked for */
	uint64_t served; /* and done */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the following variables */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct buffer buffers[FAKE_BUFFERS];
static size_t count;
static pthread_t thread;
static uint64_t dropped; /* by the first buffer */
static uint64_t reported;
static bool is_held;
static bool must_end;

static uint64_t late_ns(void)
{
	const char *late = getenv("FAKE_SDK_LATE_MS");

	return late ? (uint64_t)atoi(late) * 1000000 : 0;
}

/* Takes the records that are complete. The lock is held. */
static struct record *take(struct buffer *buffer)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct record *taken = NULL;
	struct record **end = &taken;

	for (struct record **at = &buffer->newest; *at && !is_held;) {
		struct record *record = *at;

		if (record->ready_ns > now_ns) {
			at = &record->next;
			continue;
		}
		*at = record->next;
		record->next = NULL;
		buffer->used -= record->bytes;
		*end = record;
		end = &record->next;
	}
	return taken;
}

static void hand_over(struct buffer *buffer, struct record *taken, uint64_t lost)
{
	struct sdk_record_header storage[256], *headers[256];
	struct sdk_buffer handle = {.handle = (uint64_t)(buffer - buffers) + 1};

	amd_call_hook();
	do {
		struct record *first = taken;
		size_t n = 0;

		for (; taken && n < 256; taken = taken->next, n++) {
			storage[n] = (struct sdk_record_header){
				.category = taken->category,
				.kind = taken->kind,
				.payload = taken->payload,
			};
			headers[n] = &storage[n];
		}
		buffer->callback(buffer->context, handle, headers, n, buffer->data, lost);
		while (first != taken) {
			struct record *next = first->next;

			memset(first, 0xdd, sizeof(*first));
			free(first);
			first = next;
		}
	} while (taken);
}

/* The lock is held: writers wait. */
static void sweep(const struct buffer *buffer)
{
	volatile uint32_t used = 0;

	for (size_t i = 0; i < buffer->bytes; i++)
		used = used + (buffer->headers[0][i].kind != 0);
}

/* Serves what was asked of a buffer. The lock is held, but not during the callback. */
static void serve_one(struct buffer *buffer)
{
	uint64_t asked = buffer->asked;
	struct record *taken = take(buffer);
	uint64_t lost = buffer == &buffers[0] ? dropped : 0;
	bool has_lost = !is_held && lost > reported;

	if (taken)
		sweep(buffer);
	if (has_lost)
		reported = lost;
	pthread_mutex_unlock(&lock);
	if (taken || has_lost)
		hand_over(buffer, taken, lost);
	pthread_mutex_lock(&lock);
	buffer->served = asked;
	pthread_cond_broadcast(&changed);
}

/* One thread for all buffers, as if they were assigned to the same callback thread. */
static void *serve(void *unused)
{
	pthread_mutex_lock(&lock);
	while (!must_end) {
		bool has_worked = false;

		for (size_t i = 0; i < count; i++) {
			if (buffers[i].asked == buffers[i].served)
				continue;
			serve_one(&buffers[i]);
			has_worked = true;
		}
		if (!has_worked && !must_end)
			pthread_cond_wait(&changed, &lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void start_thread(void)
{
	if (pthread_create(&thread, NULL, serve, NULL) != 0)
		abort();
}

static void lock_all(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_all(void)
{
	pthread_mutex_unlock(&lock);
}

static void restart_in_child(void)
{
	pthread_cond_init(&changed, NULL);
	pthread_mutex_unlock(&lock);
	if (count && !must_end)
		start_thread();
}

/* Memory that is written, as a vector of headers is. */
static struct sdk_record_header *make_headers(size_t bytes)
{
	struct sdk_record_header *headers = malloc(bytes * sizeof(*headers));

	if (!headers)
		abort();
	memset(headers, 0, bytes * sizeof(*headers));
	return headers;
}

int fake_create_buffer(struct sdk_context context, size_t bytes, size_t watermark, int policy,
		       sdk_buffer_fn callback, void *data, struct sdk_buffer *out)
{
	struct fake_context *of;
	int status = configure_find(context, configure_check(), &of);
	struct buffer *buffer = &buffers[count];

	if (status != SDK_OK)
		return status;
	if (!bytes || watermark > bytes || policy != SDK_POLICY_LOSSLESS || count == FAKE_BUFFERS)
		return SDK_E_INVALID_ARGUMENT;
	pthread_mutex_lock(&lock);
	*buffer = (struct buffer){
		.context = context,
		.bytes = bytes,
		.watermark = watermark,
		.callback = callback,
		.data = data,
		.headers = {make_headers(bytes), make_headers(bytes)},
	};
	out->handle = ++count;
	pthread_mutex_unlock(&lock);
	if (count == 1) {
		pthread_atfork(lock_all, unlock_all, restart_in_child);
		start_thread();
	}
	return SDK_OK;
}

int fake_create_callback_thread(struct sdk_thread *made)
{
	int status = configure_check();

	made->handle = 1;
	return status;
}

int fake_assign_callback_thread(struct sdk_buffer buffer, struct sdk_thread of)
{
	int status = configure_check();

	if (status != SDK_OK)
		return status;
	if (!buffers_exist(buffer.handle))
		return SDK_E_BUFFER_NOT_FOUND;
	return of.handle == 1 ? SDK_OK : SDK_E_THREAD_NOT_FOUND;
}

bool buffers_exist(uint64_t handle)
{
	return handle && handle <= count;
}

/* The lock is held. */
static void flush(struct buffer *buffer)
{
	uint64_t asked = ++buffer->asked;

	pthread_cond_broadcast(&changed);
	while (buffer->served < asked && !must_end)
		pthread_cond_wait(&changed, &lock);
}

int fake_flush_buffer(struct sdk_buffer handle)
{
	if (configure_is_final())
		return SDK_E_FINALIZED;
	if (!buffers_exist(handle.handle))
		return SDK_E_BUFFER_NOT_FOUND;
	pthread_mutex_lock(&lock);
	flush(&buffers[handle.handle - 1]);
	pthread_mutex_unlock(&lock);
	return SDK_OK;
}

void buffers_add(uint64_t handle, struct sdk_context context, uint32_t category, uint32_t kind,
		 const void *given, size_t bytes)
{
	struct buffer *buffer = &buffers[handle - 1];
	struct record *record = malloc(sizeof(*record));
	size_t grown = bytes + configure_grown();

	if (!record || grown > RECORD_MAX)
		abort();
	memset(record, 0xa5, sizeof(*record));
	record->context = context;
	record->category = category;
	record->kind = kind;
	record->bytes = grown;
	record->ready_ns = clock_monotonic_ns() + late_ns();
	memcpy(record->payload, given, bytes);
	memcpy(record->payload, &(uint64_t){grown}, sizeof(uint64_t));
	pthread_mutex_lock(&lock);
	while (buffer->used + grown > buffer->bytes && !is_held && !late_ns())
		flush(buffer);
	record->next = buffer->newest;
	buffer->newest = record;
	buffer->used += grown;
	if (buffer->used >= buffer->watermark) {
		buffer->asked++;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
}

bool buffers_are_empty(void)
{
	bool empty = true;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		empty = empty && !buffers[i].newest;
	pthread_mutex_unlock(&lock);
	return empty;
}

/* Records that were not flushed are gone. */
void buffers_finish(void)
{
	pthread_mutex_lock(&lock);
	must_end = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (count)
		pthread_join(thread, NULL);
	for (size_t i = 0; i < count; i++) {
		for (struct record *next, *record = buffers[i].newest; record; record = next) {
			next = record->next;
			free(record);
		}
		buffers[i].newest = NULL;
		free(buffers[i].headers[0]);
		free(buffers[i].headers[1]);
	}
}

FAKE_EXPORT void fake_hold(bool is_on)
{
	pthread_mutex_lock(&lock);
	is_held = is_on;
	pthread_mutex_unlock(&lock);
}

FAKE_EXPORT void fake_drop(size_t records)
{
	pthread_mutex_lock(&lock);
	dropped += records;
	pthread_mutex_unlock(&lock);
}
