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
	_Alignas(8) uint8_t record[RECORD_MAX];
};

/* A subscriber's buffers and kinds: 0 has those of the first interface. */
struct receiver {
	cupti_buffer_requested_fn requested;
	cupti_buffer_completed_fn completed;
	cupti_buffer_requested_2_fn requested_2;
	cupti_buffer_completed_2_fn completed_2;
	struct queued *queue;
	size_t queued;
	size_t capacity;
	size_t dropped;
	bool is_enabled[KINDS];
	uint8_t *current; /* asked for, not filled yet */
	size_t current_bytes;
};

/* The first interface and the second exclude each other until cuptiFinalize(). */
enum scope {
	SCOPE_NONE,
	SCOPE_GLOBAL,
	SCOPE_SUBSCRIBER
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the following variables */
static struct receiver receivers[SUBSCRIBERS];
static enum scope scope;

static _Atomic bool is_held;
static _Atomic int handing_over;
static _Atomic int buffers_out;
static _Atomic size_t other_records;

int fake_cuptiGetTimestamp(uint64_t *timestamp_ns)
{
	*timestamp_ns = clock_real_ns(); /* unless another clock is registered */
	return CUPTI_OK;
}

/* From 13.3 on the calls of one interface exclude those of the other. */
static int enter(enum scope wanted)
{
	int result = CUPTI_OK;

	pthread_mutex_lock(&lock);
	if (version_code() >= CUPTI_VERSION_SECOND && scope != SCOPE_NONE && scope != wanted)
		result = CUPTI_E_MULTIPLE_SUBSCRIBERS;
	else
		scope = wanted;
	pthread_mutex_unlock(&lock);
	return result;
}

static int set_enabled(int at, int kind, bool on)
{
	if (on && kind == CUPTI_KIND_CONCURRENT_KERNEL && pc_sampling_is_any_enabled())
		return CUPTI_E_NOT_COMPATIBLE;
	if (!on)
		subscribe_exclude("cuptiActivityDisable");
	pthread_mutex_lock(&lock);
	receivers[at].is_enabled[kind % KINDS] = on;
	pthread_mutex_unlock(&lock);
	return CUPTI_OK;
}

int fake_cuptiActivityEnable(int kind)
{
	int result = enter(SCOPE_GLOBAL);

	subscribe_use("cuptiActivityEnable");
	return result == CUPTI_OK ? set_enabled(0, kind, true) : result;
}

int fake_cuptiActivityDisable(int kind)
{
	int result = enter(SCOPE_GLOBAL);

	subscribe_use("cuptiActivityDisable");
	return result == CUPTI_OK ? set_enabled(0, kind, false) : result;
}

int records_enable(int at, int kind, bool on)
{
	int result = enter(SCOPE_SUBSCRIBER);

	return result == CUPTI_OK ? set_enabled(at, kind, on) : result;
}

int fake_cuptiActivityRegisterCallbacks(cupti_buffer_requested_fn requested,
					cupti_buffer_completed_fn completed)
{
	int result = enter(SCOPE_GLOBAL);

	subscribe_use("cuptiActivityRegisterCallbacks");
	if (result != CUPTI_OK)
		return result;
	pthread_mutex_lock(&lock);
	receivers[0].requested = requested;
	receivers[0].completed = completed;
	pthread_mutex_unlock(&lock);
	return CUPTI_OK;
}

int fake_cuptiActivityRegisterCallbacks_v2(void *subscriber, cupti_buffer_requested_2_fn requested,
					   cupti_buffer_completed_2_fn completed)
{
	int at = subscribe_index(subscriber);
	int result = enter(SCOPE_SUBSCRIBER);

	subscribe_use("cuptiActivityRegisterCallbacks_v2");
	if (at < 1)
		return 1;
	if (result != CUPTI_OK)
		return result;
	pthread_mutex_lock(&lock);
	receivers[at].requested_2 = requested;
	receivers[at].completed_2 = completed;
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

static size_t take_dropped(int at)
{
	size_t count;

	pthread_mutex_lock(&lock);
	count = receivers[at].dropped;
	receivers[at].dropped = 0;
	pthread_mutex_unlock(&lock);
	return count;
}

int fake_cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
	*count = take_dropped(0);
	return CUPTI_OK;
}

int fake_cuptiActivityGetNumDroppedRecords_v2(void *subscriber, void *context, uint32_t stream,
					      size_t *count)
{
	int at = subscribe_index(subscriber);

	if (at < 1)
		return 1;
	*count = take_dropped(at);
	return CUPTI_OK;
}

static bool is_enabled(int at, int kind)
{
	bool enabled;

	pthread_mutex_lock(&lock);
	enabled = receivers[at].is_enabled[kind % KINDS];
	pthread_mutex_unlock(&lock);
	return enabled;
}

bool records_are_enabled(int kind)
{
	bool enabled = false;

	for (int i = 0; i < SUBSCRIBERS; i++)
		enabled = enabled || is_enabled(i, kind);
	return enabled;
}

static void add(struct receiver *to, const struct queued *entry)
{
	pthread_mutex_lock(&lock);
	if (to->queued == to->capacity) {
		to->capacity = to->capacity ? 2 * to->capacity : 1024;
		to->queue = realloc(to->queue, to->capacity * sizeof(*to->queue));
		if (!to->queue)
			abort();
	}
	to->queue[to->queued++] = *entry;
	pthread_mutex_unlock(&lock);
}

void records_add(const void *record, size_t bytes)
{
	uint32_t kind = *(const uint32_t *)record;
	struct queued first = {.bytes = (uint16_t)version_record_bytes(kind)};

	first.given = (uint16_t)(bytes < first.bytes ? bytes : first.bytes);
	memcpy(first.record, record, first.given);
	if (is_enabled(0, (int)kind))
		add(&receivers[0], &first);
	for (int i = 1; i < SUBSCRIBERS; i++) {
		struct queued selected = {0};

		if (!is_enabled(i, (int)kind))
			continue;
		selected.bytes = selected.given =
			(uint16_t)second_encode(i, first.record, selected.record);
		if (selected.bytes)
			add(&receivers[i], &selected);
	}
}

static struct receiver receiver_now(int at)
{
	struct receiver now;

	pthread_mutex_lock(&lock);
	now = receivers[at];
	pthread_mutex_unlock(&lock);
	return now;
}

/* A buffer from the callback, as `current` of its receiver. NULL crashes versions before 12.9. */
static bool ask(int at, struct receiver *asked)
{
	static const size_t info = sizeof(info);
	size_t max_records = 0;

	*asked = receiver_now(at);
	asked->current = NULL;
	asked->current_bytes = 0;
	if (asked->requested_2)
		asked->requested_2(&asked->current, &asked->current_bytes, &max_records, &info);
	else if (asked->requested)
		asked->requested(&asked->current, &asked->current_bytes, &max_records);
	else
		return false;
	if (asked->current)
		atomic_fetch_add(&buffers_out, 1);
	else if (version_code() < 27)
		abort();
	return asked->current;
}

/* The buffer that was asked for, with the callbacks that it goes back to. */
static bool take_current(int at, struct receiver *from)
{
	pthread_mutex_lock(&lock);
	*from = receivers[at];
	receivers[at].current = NULL;
	pthread_mutex_unlock(&lock);
	return from->current;
}

/* Hands over the current buffer of `to`, a copy: the receiver may be gone by now. */
static void complete(const struct receiver *to, int at, size_t used)
{
	atomic_fetch_sub(&buffers_out, 1);
	if (to->completed_2)
		to->completed_2(to->current, to->current_bytes, used, second_info(at));
	else
		to->completed(NULL, 0, to->current, to->current_bytes, used);
}

static void prepare(int at)
{
	struct receiver asked;
	bool is_taken = false;

	if (receiver_now(at).current || !ask(at, &asked))
		return;
	pthread_mutex_lock(&lock);
	if (!receivers[at].current && receivers[at].requested == asked.requested &&
	    receivers[at].requested_2 == asked.requested_2) {
		receivers[at].current = asked.current;
		receivers[at].current_bytes = asked.current_bytes;
		is_taken = true;
	}
	pthread_mutex_unlock(&lock);
	/* Another thread was faster, or the receiver is gone: the buffer goes back empty. */
	if (!is_taken)
		complete(&asked, at, 0);
}

static bool enabled_any(int at)
{
	bool any = false;

	for (int kind = 0; kind < KINDS; kind++)
		any = any || is_enabled(at, kind);
	return any;
}

void records_prepare(void)
{
	for (int i = 0; i < SUBSCRIBERS; i++)
		if (enabled_any(i))
			prepare(i);
}

/* Takes the records queued now; later ones wait for the next flush. */
static struct queued *take_queue(int at, size_t *count)
{
	struct receiver *from = &receivers[at];
	struct queued *taken = NULL;

	*count = 0;
	pthread_mutex_lock(&lock);
	if (from->queued && (from->completed || from->completed_2)) {
		taken = from->queue;
		*count = from->queued;
		from->queue = NULL;
		from->queued = 0;
		from->capacity = 0;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

/* Hands over one buffer of records, from the end; returns how many are left. */
static size_t hand_over_one(int at, const struct queued *taken, size_t count)
{
	struct receiver to;
	size_t used = 0;

	if (!take_current(at, &to) && !ask(at, &to)) {
		pthread_mutex_lock(&lock);
		receivers[at].dropped += count;
		pthread_mutex_unlock(&lock);
		return 0;
	}
	while (count && used + taken[count - 1].bytes <= to.current_bytes) {
		const struct queued *entry = &taken[--count];

		memcpy(to.current + used, entry->record, entry->given);
		memset(to.current + used + entry->given, 0xa5, (size_t)entry->bytes - entry->given);
		used += entry->bytes;
	}
	complete(&to, at, used);
	return count;
}

static void *hand_over(void *unused)
{
	const char *late = getenv("FAKE_CUPTI_LATE_MS");
	struct queued *taken;
	size_t count;

	if (late)
		usleep((useconds_t)atoi(late) * 1000);
	for (int i = 0; i < SUBSCRIBERS; i++) {
		taken = take_queue(i, &count);
		while (count)
			count = hand_over_one(i, taken, count);
		free(taken);
	}
	atomic_store(&handing_over, 0);
	return NULL;
}

int fake_cuptiActivityFlushAll(uint32_t flags)
{
	struct receiver left;
	pthread_t thread;

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
	for (int i = 0; flags & CUPTI_FLUSH_FORCED && i < SUBSCRIBERS; i++)
		if (take_current(i, &left))
			complete(&left, i, 0);
	return CUPTI_OK;
}

bool records_are_idle(void)
{
	for (int i = 0; i < SUBSCRIBERS; i++)
		if (enabled_any(i))
			return false;
	return true;
}

/* Another thread may be in prepare(): the buffer is taken and the callbacks go in one step. */
void records_forget(int at)
{
	struct receiver from;

	pthread_mutex_lock(&lock);
	from = receivers[at];
	receivers[at] = (struct receiver){0};
	pthread_mutex_unlock(&lock);
	free(from.queue);
	if (from.current)
		complete(&from, at, 0);
	second_forget(at);
}

/* cuptiFinalize() hands over the records and unregisters the callbacks. */
void records_reset(void)
{
	fake_cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
	for (int i = 0; i < SUBSCRIBERS; i++)
		records_forget(i);
	pthread_mutex_lock(&lock);
	scope = SCOPE_NONE;
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
	for (int i = 0; i < SUBSCRIBERS; i++)
		if (receivers[i].completed || receivers[i].completed_2)
			receivers[i].dropped += count;
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
