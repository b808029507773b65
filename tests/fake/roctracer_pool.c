/*
 * Records of the fake libroctracer64: work is queued when it is launched. A flush lets it end and
 * writes its records, newest first, into the buffers of the pool. Its thread hands them over.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake/amd_calls.h"
#include "fake/entries.h"
#include "fake/roctracer_state.h"

#define STRIDE 80 /* more than the record of today: only roctracer_next_record() knows */
#define SKEW_NS 3600000000000ull
#define NAME_MAX_BYTES 256

struct work {
	struct roctracer_record record;
	char name[NAME_MAX_BYTES];
	bool has_name;
};

struct pool {
	struct roctracer_properties properties;
	char *memory; /* two buffers */
	char *begin;  /* the one being written */
	char *next;   /* record */
	char *names;
	pid_t owner;
	pthread_mutex_t producer; /* guards the three above */
	pthread_mutex_t consumer; /* guards the following; held during the callback */
	pthread_cond_t changed;
	const char *full_begin;
	const char *full_end;
	bool is_full;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the following variables */
static struct work *queue;
static size_t queued;
static size_t capacity;
static _Atomic bool is_held;
static _Atomic bool is_mixed;
static _Atomic bool is_stopped;
static _Atomic(struct pool *) newest_pool;

FAKE_EXPORT uint64_t fake_now(void)
{
	return clock_monotonic_ns() + SKEW_NS;
}

int fake_roctracer_get_timestamp(uint64_t *timestamp_ns)
{
	*timestamp_ns = atomic_load(&is_stopped) ? 0 : fake_now();
	return ROCTRACER_OK;
}

/* ------------------------------------------------------------------ pools */

static void check_owner(const struct pool *pool, const char *call)
{
	if (pool->owner == getpid())
		return;
	fprintf(stderr, "fake roctracer: %s waits forever in a forked child\n", call);
	abort();
}

static void *consume(void *user)
{
	struct pool *pool = user;

	pthread_mutex_lock(&pool->consumer);
	for (;;) {
		while (!pool->is_full)
			pthread_cond_wait(&pool->changed, &pool->consumer);
		amd_call_hook();
		pool->properties.on_buffer(pool->full_begin, pool->full_end,
					   pool->properties.on_buffer_user);
		pool->is_full = false;
		pthread_cond_broadcast(&pool->changed);
	}
	return NULL;
}

static char *get_memory(const struct roctracer_properties *properties, size_t bytes)
{
	char *memory = NULL;

	if (!properties->allocate)
		return malloc(bytes);
	properties->allocate(&memory, bytes, properties->allocate_user);
	return memory;
}

/* Pools are never freed, which a leak checker would report. */
int fake_roctracer_open_pool_expl(const struct roctracer_properties *properties, void **pool)
{
	static struct pool pools[64];
	static _Atomic uint32_t count;
	struct pool *made = &pools[atomic_fetch_add(&count, 1) % 64];
	size_t bytes = properties->buffer_bytes;
	pthread_t thread;

	made->properties = *properties;
	made->memory = get_memory(properties, 2 * bytes);
	if (!made->memory)
		return ROCTRACER_E_OUT_OF_MEMORY;
	made->begin = made->memory;
	made->next = made->begin;
	made->names = made->begin + bytes;
	made->owner = getpid();
	pthread_mutex_init(&made->producer, NULL);
	pthread_mutex_init(&made->consumer, NULL);
	pthread_cond_init(&made->changed, NULL);
	if (pthread_create(&thread, NULL, consume, made) != 0)
		return ROCTRACER_E_ERROR;
	pthread_detach(thread);
	*pool = made;
	atomic_store(&newest_pool, made);
	return ROCTRACER_OK;
}

/* Hands the current buffer over and continues in the other one. The producer's lock is held. */
static void hand_over(struct pool *pool)
{
	size_t bytes = pool->properties.buffer_bytes;

	check_owner(pool, "a full buffer");
	pthread_mutex_lock(&pool->consumer);
	while (pool->is_full)
		pthread_cond_wait(&pool->changed, &pool->consumer);
	pool->full_begin = pool->begin;
	pool->full_end = pool->next;
	pool->is_full = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->consumer);
	pool->begin = pool->begin == pool->memory ? pool->memory + bytes : pool->memory;
	pool->next = pool->begin;
	pool->names = pool->begin + bytes;
	memset(pool->begin, 0xa5, bytes); /* the last but one buffer: its names are gone */
}

static void wait_until_empty(struct pool *pool)
{
	pthread_mutex_lock(&pool->consumer);
	while (pool->is_full)
		pthread_cond_wait(&pool->changed, &pool->consumer);
	pthread_mutex_unlock(&pool->consumer);
}

static void write_record(struct pool *pool, const struct work *work)
{
	struct roctracer_record record = work->record;
	size_t name_bytes = work->has_name ? strlen(work->name) + 1 : 0;

	pthread_mutex_lock(&pool->producer);
	if (pool->next + STRIDE > pool->names - name_bytes)
		hand_over(pool);
	if (work->has_name) {
		pool->names -= name_bytes;
		memcpy(pool->names, work->name, name_bytes);
		record.kernel_name = pool->names;
	}
	memcpy(pool->next, &record, sizeof(record));
	memset(pool->next + sizeof(record), 0xa5, STRIDE - sizeof(record));
	pool->next += STRIDE;
	pthread_mutex_unlock(&pool->producer);
}

int fake_roctracer_next_record(const struct roctracer_record *record,
			       const struct roctracer_record **next)
{
	*next = (const void *)((const char *)record + STRIDE);
	return ROCTRACER_OK;
}

/* ------------------------------------------------------------------ work */

static uint32_t op_of(uint32_t kind)
{
	return kind == ROCTRACER_COMMAND_KERNEL || kind == ROCTRACER_COMMAND_TASK
		       ? ROCTRACER_OP_DISPATCH
		       : ROCTRACER_OP_COPY;
}

static void add_work(const struct work *work)
{
	pthread_mutex_lock(&lock);
	if (queued == capacity) {
		capacity = capacity ? 2 * capacity : 1024;
		queue = realloc(queue, capacity * sizeof(*queue));
		if (!queue)
			abort();
	}
	queue[queued++] = *work;
	pthread_mutex_unlock(&lock);
}

/* HIP asks at the launch whether the work shall be recorded. */
void pool_launch(const struct fake_hip_launch *launch, uint64_t correlation)
{
	uint32_t usual = launch->kind ? launch->kind : ROCTRACER_COMMAND_KERNEL;
	struct work work = {
		.record = {.domain = ROCTRACER_DOMAIN_HIP_OPS,
			   .correlation_id = correlation,
			   .begin_ns = launch->start_ns,
			   .end_ns = launch->end_ns,
			   .device_id = launch->node,
			   .queue_id = launch->queue,
			   .bytes = launch->bytes},
	};

	for (uint32_t i = 0; i < launch->records; i++) {
		const char *name = launch->names ? launch->names[i] : launch->name;

		work.record.kind = launch->kinds ? launch->kinds[i] : usual;
		work.record.op = op_of(work.record.kind);
		work.has_name = work.record.op == ROCTRACER_OP_DISPATCH && name;
		if (work.has_name)
			snprintf(work.name, sizeof(work.name), "%s", name);
		if (activity_pool(work.record.op))
			add_work(&work);
	}
}

static struct work *take_queue(size_t *count)
{
	struct work *taken;

	pthread_mutex_lock(&lock);
	taken = queue;
	*count = queued;
	queue = NULL;
	queued = 0;
	capacity = 0;
	pthread_mutex_unlock(&lock);
	return taken;
}

/* Work ends: the newest first, but the kernels of one call in their order. */
static void end_work(void)
{
	static const struct work external = {
		.record = {.domain = ROCTRACER_DOMAIN_EXTERNAL, .op = 1, .correlation_id = 1},
	};
	size_t count;
	struct work *taken = take_queue(&count);
	size_t end = count;

	while (end) {
		size_t first = end - 1;

		while (first && taken[end - 1].record.correlation_id &&
		       taken[first - 1].record.correlation_id ==
			       taken[end - 1].record.correlation_id)
			first--;
		for (size_t i = first; i < end; i++) {
			struct pool *pool = activity_pool(taken[i].record.op);

			if (!pool)
				continue; /* disabled since the launch: it is not recorded */
			if (atomic_load(&is_mixed))
				write_record(pool, &external);
			write_record(pool, &taken[i]);
		}
		end = first;
	}
	free(taken);
}

static void *end_late(void *unused)
{
	usleep((useconds_t)atoi(getenv("FAKE_ROCTRACER_LATE_MS")) * 1000);
	end_work();
	return NULL;
}

/* A buffer that was handed over before is not waited for if nothing was written since. */
int fake_roctracer_flush_activity_expl(void *user)
{
	struct pool *pool = user;
	pthread_t thread;
	bool is_empty;

	check_owner(pool, "roctracer_flush_activity");
	if (!atomic_load(&is_held)) {
		if (!getenv("FAKE_ROCTRACER_LATE_MS"))
			end_work();
		else if (pthread_create(&thread, NULL, end_late, NULL) == 0)
			pthread_detach(thread);
	}
	pthread_mutex_lock(&pool->producer);
	is_empty = pool->next == pool->begin;
	if (!is_empty)
		hand_over(pool);
	pthread_mutex_unlock(&pool->producer);
	if (!is_empty)
		wait_until_empty(pool);
	return ROCTRACER_OK;
}

/* ------------------------------------------------------------------ controls */

FAKE_SETTER(hold, bool, is_held)
FAKE_SETTER(stop_clock, bool, is_stopped)

/* Records of other domains come between those of HIP from now on. */
FAKE_EXPORT void fake_record(const void *record, size_t bytes)
{
	is_mixed = true;
}

FAKE_EXPORT void fake_lose(size_t count)
{
	pthread_mutex_lock(&lock);
	queued -= count < queued ? count : queued;
	pthread_mutex_unlock(&lock);
}

FAKE_EXPORT size_t fake_buffer_bytes(void)
{
	const struct pool *pool = atomic_load(&newest_pool);

	return pool ? pool->properties.buffer_bytes : 0;
}
