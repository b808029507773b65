/*
 * Activity records of the fake libcupti: a buffer is asked for on the application's thread,
 * filled with the queued records, newest first, and handed over on a thread of the library during
 * or, if set to be late, after a flush. The declared part of a record is followed by bytes that
 * newer versions appended; they are not zero.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake/cupti_state.h"
#include "fake/entries.h"

#define RECORD_MAX 256
#define KINDS 64
#define OTHER_BYTES 50000 /* size of the other tool's buffers; Proton uses another */

struct queued {
	uint16_t bytes; /* size of the record in this version */
	uint16_t given;
	uint8_t record[RECORD_MAX];
};

struct consumer {
	cupti_buffer_requested_fn requested;
	cupti_buffer_completed_fn completed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the following variables */
static struct consumer consumer;
static struct queued *queue;
static size_t queued;
static size_t capacity;
static size_t dropped;
static bool is_enabled[KINDS];
static struct {
	uint8_t *bytes;
	size_t size;
} current; /* asked for, not filled yet */

static _Atomic bool is_held;
static _Atomic int handing_over;
static _Atomic int buffers_out;
static _Atomic size_t other_records;

int fake_cuptiGetTimestamp(uint64_t *timestamp_ns)
{
	*timestamp_ns = clock_real_ns(); /* unless another clock is registered */
	return CUPTI_OK;
}

int fake_cuptiActivityEnable(int kind)
{
	subscribe_use("cuptiActivityEnable");
	if (kind == CUPTI_KIND_CONCURRENT_KERNEL && pc_sampling_is_any_enabled())
		return 14; /* CUPTI_ERROR_NOT_COMPATIBLE */
	pthread_mutex_lock(&lock);
	is_enabled[kind % KINDS] = true;
	pthread_mutex_unlock(&lock);
	return CUPTI_OK;
}

int fake_cuptiActivityDisable(int kind)
{
	subscribe_use("cuptiActivityDisable");
	pthread_mutex_lock(&lock);
	is_enabled[kind % KINDS] = false;
	pthread_mutex_unlock(&lock);
	return CUPTI_OK;
}

int fake_cuptiActivityRegisterCallbacks(cupti_buffer_requested_fn requested,
					cupti_buffer_completed_fn completed)
{
	subscribe_use("cuptiActivityRegisterCallbacks");
	pthread_mutex_lock(&lock);
	consumer = (struct consumer){requested, completed};
	pthread_mutex_unlock(&lock);
	return CUPTI_OK;
}

int fake_cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes,
				    struct cupti_activity **record)
{
	uint8_t *next = buffer;

	if (*record)
		next = (uint8_t *)*record + version_record_bytes((*record)->kind);
	if (next + sizeof(struct cupti_activity) > buffer + valid_bytes)
		return CUPTI_E_MAX_LIMIT_REACHED;
	*record = (void *)next;
	return CUPTI_OK;
}

int fake_cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
	(void)context;
	(void)stream;
	pthread_mutex_lock(&lock);
	*count = dropped;
	dropped = 0;
	pthread_mutex_unlock(&lock);
	return CUPTI_OK;
}

bool records_are_enabled(int kind)
{
	bool enabled;

	pthread_mutex_lock(&lock);
	enabled = is_enabled[kind % KINDS];
	pthread_mutex_unlock(&lock);
	return enabled;
}

void records_add(const void *record, size_t bytes)
{
	struct queued entry = {
		.bytes = (uint16_t)version_record_bytes(*(const uint32_t *)record),
	};

	entry.given = (uint16_t)(bytes < entry.bytes ? bytes : entry.bytes);
	memcpy(entry.record, record, entry.given);
	pthread_mutex_lock(&lock);
	if (queued == capacity) {
		capacity = capacity ? 2 * capacity : 1024;
		queue = realloc(queue, capacity * sizeof(*queue));
		if (!queue)
			abort();
	}
	queue[queued++] = entry;
	pthread_mutex_unlock(&lock);
}

/* A buffer from the registered callback. NULL is allowed, but crashes versions before 12.9. */
static bool ask(uint8_t **buffer, size_t *bytes)
{
	struct consumer asked;
	size_t max_records = 0;

	pthread_mutex_lock(&lock);
	asked = consumer;
	pthread_mutex_unlock(&lock);
	*buffer = NULL;
	*bytes = 0;
	if (!asked.requested)
		return false;
	asked.requested(buffer, bytes, &max_records);
	if (*buffer)
		atomic_fetch_add(&buffers_out, 1);
	else if (version_code() < 27)
		abort();
	return *buffer;
}

static bool take_current(uint8_t **buffer, size_t *bytes)
{
	pthread_mutex_lock(&lock);
	*buffer = current.bytes;
	*bytes = current.size;
	current.bytes = NULL;
	pthread_mutex_unlock(&lock);
	return *buffer;
}

static void complete(uint8_t *buffer, size_t bytes, size_t used)
{
	struct consumer to;

	pthread_mutex_lock(&lock);
	to = consumer;
	pthread_mutex_unlock(&lock);
	atomic_fetch_sub(&buffers_out, 1);
	if (to.completed)
		to.completed(NULL, 0, buffer, bytes, used);
	else /* no callback is registered any more: cuptiFinalize() came between */
		free(buffer);
}

void records_prepare(void)
{
	uint8_t *buffer;
	size_t bytes;
	bool is_wanted;

	pthread_mutex_lock(&lock);
	is_wanted = !current.bytes;
	pthread_mutex_unlock(&lock);
	if (!is_wanted || !ask(&buffer, &bytes))
		return;
	pthread_mutex_lock(&lock);
	if (!current.bytes) {
		current.bytes = buffer;
		current.size = bytes;
		buffer = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (buffer) /* another thread was faster: this one goes back empty */
		complete(buffer, bytes, 0);
}

/* Takes the records queued now; later ones wait for the next flush. */
static struct queued *take_queue(size_t *count)
{
	struct queued *taken = NULL;

	*count = 0;
	pthread_mutex_lock(&lock);
	if (queued && consumer.completed) {
		taken = queue;
		*count = queued;
		queue = NULL;
		queued = 0;
		capacity = 0;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

/* Hands over one buffer of records, from the end; returns how many are left. */
static size_t hand_over_one(const struct queued *taken, size_t count)
{
	uint8_t *buffer;
	size_t bytes;
	size_t used = 0;

	if (!take_current(&buffer, &bytes) && !ask(&buffer, &bytes)) {
		fake_drop(count);
		return 0;
	}
	while (count && used + taken[count - 1].bytes <= bytes) {
		const struct queued *entry = &taken[--count];

		memcpy(buffer + used, entry->record, entry->given);
		memset(buffer + used + entry->given, 0xa5, (size_t)entry->bytes - entry->given);
		used += entry->bytes;
	}
	complete(buffer, bytes, used);
	return count;
}

static void *hand_over(void *unused)
{
	const char *late = getenv("FAKE_CUPTI_LATE_MS");
	struct queued *taken;
	size_t count;

	(void)unused;
	if (late)
		usleep((useconds_t)atoi(late) * 1000);
	taken = take_queue(&count);
	while (count)
		count = hand_over_one(taken, count);
	free(taken);
	atomic_store(&handing_over, 0);
	return NULL;
}

int fake_cuptiActivityFlushAll(uint32_t flags)
{
	pthread_t thread;
	uint8_t *buffer;
	size_t bytes;

	subscribe_use("cuptiActivityFlushAll");
	if (atomic_load(&is_held))
		return CUPTI_OK;
	if (atomic_exchange(&handing_over, 1)) /* in progress */
		return CUPTI_OK;
	if (pthread_create(&thread, NULL, hand_over, NULL) != 0) {
		atomic_store(&handing_over, 0);
		return 1;
	}
	if (!(flags & CUPTI_FLUSH_FORCED) && getenv("FAKE_CUPTI_LATE_MS")) {
		pthread_detach(thread); /* a flush is not a fence */
		return CUPTI_OK;
	}
	pthread_join(thread, NULL);
	if (flags & CUPTI_FLUSH_FORCED && take_current(&buffer, &bytes))
		complete(buffer, bytes, 0);
	return CUPTI_OK;
}

bool records_are_idle(void)
{
	bool idle = true;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < KINDS; i++)
		idle = idle && !is_enabled[i];
	pthread_mutex_unlock(&lock);
	return idle;
}

/* cuptiFinalize() hands over the records and unregisters the callbacks. */
void records_reset(void)
{
	fake_cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
	pthread_mutex_lock(&lock);
	memset(is_enabled, 0, sizeof(is_enabled));
	consumer = (struct consumer){0};
	queued = 0;
	pthread_mutex_unlock(&lock);
}

FAKE_EXPORT void fake_record(const void *record, size_t bytes)
{
	if (records_are_enabled((int)*(const uint32_t *)record)) {
		records_prepare();
		records_add(record, bytes);
	}
}

FAKE_EXPORT void fake_hold(bool is_on)
{
	atomic_store(&is_held, is_on);
}

FAKE_EXPORT int fake_buffers_out(void)
{
	return atomic_load(&buffers_out);
}

FAKE_EXPORT void fake_drop(size_t count)
{
	pthread_mutex_lock(&lock);
	dropped += count;
	pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ another tool's records */

static void *other_buffers[64]; /* never freed: another tool may get them by mistake */
static _Atomic uint32_t other_count;

static void other_requested(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	uint32_t at = atomic_fetch_add(&other_count, 1) % 64;

	if (!other_buffers[at])
		other_buffers[at] = malloc(OTHER_BYTES);
	*bytes = OTHER_BYTES;
	*buffer = other_buffers[at];
	*max_records = 0;
}

/* Like Kineto, it ignores a buffer that is not its own. The fake recognizes its buffers by their
 * size. */
static void other_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			    size_t valid_bytes)
{
	struct cupti_activity *record = NULL;

	(void)context;
	(void)stream;
	if (bytes != OTHER_BYTES)
		return;
	while (fake_cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_OK)
		atomic_fetch_add(&other_records, 1);
}

FAKE_EXPORT void fake_other_start(void)
{
	atomic_store(&other_records, 0);
	fake_cuptiActivityRegisterCallbacks(other_requested, other_completed);
	fake_cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL);
}

FAKE_EXPORT size_t fake_other_stop(void)
{
	fake_cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
	fake_cuptiActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL);
	return atomic_load(&other_records);
}
