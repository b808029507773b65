/* Launch queue and reader threads. */
#include "backend/intra/launch_queue.h"

#include <sched.h>
#include <time.h>

#include "backend/intra/device_clock.h"
#include "backend/intra/kernel_history.h"
#include "backend/intra/launch_reader.h"
#include "backend/intra/launch_timer.h"
#include "backend/intra/loaded_kernels.h"
#include "backend/intra/loss_warnings.h"
#include "backend/intra/record_overhead.h"
#include "base/clock.h"
#include "base/guest.h"
#include "base/message.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "record/sets/record_sessions.h"

/* Polling interval, and number of polls without a launch before the thread sleeps: 100 ms. */
#define POLL_NS 500000
#define POLLS 200

/* Maximum number of busy streams remembered while searching for a launch that has ended. */
#define STREAMS_MAX 16u

struct reader_thread {
	pthread_t pthread;
	struct launch_reader reader;
	uint64_t number; /* number of the launch that it reads; 0: none */
};

#define SHARED_INITIAL                                                                             \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .has_work = PTHREAD_COND_INITIALIZER,           \
		.is_wanted = PTHREAD_COND_INITIALIZER, .is_done = PTHREAD_COND_INITIALIZER,        \
		.last = &shared.first,                                                             \
	}

static struct shared {
	pthread_mutex_t lock;
	pthread_cond_t has_work;  /* wakes the polling thread */
	pthread_cond_t is_wanted; /* wakes idle threads */
	pthread_cond_t is_done;   /* wakes threads that flush */
	bool is_running;
	bool is_polling;     /* one thread polls; the others are idle or read */
	bool is_asleep;      /* the polling thread is asleep */
	bool is_starting;    /* a thread is being started */
	bool has_failed;     /* no thread could be started */
	uint32_t idle_count; /* threads waiting for is_wanted */
	uint32_t thread_count;
	uint32_t thread_limit;
	uint64_t put;         /* number of launches so far; also the number of the latest */
	struct launch *first; /* the queue */
	struct launch **last;
	struct launch *graphs;     /* launches in graphs, the latest first */
	struct launch *graphs_end; /* from here on, of sessions that have ended */
} shared = SHARED_INITIAL;

static bool has_budget; /* of automatic scopes */
static struct reader_thread threads[READER_THREADS_MAX];
static struct reader_thread flusher; /* for threads that flush, one at a time */
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ queue (locked) */

static bool is_after_busy(const struct launch *launch, struct launch *const *busy, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (busy[i]->buffer->context == launch->buffer->context &&
		    busy[i]->stream == launch->stream)
			return true;
	return false;
}

/* The first launch that has ended; NULL if none. Launches on one stream end in order. */
static struct launch **find_ended(void)
{
	struct launch *busy[STREAMS_MAX];
	uint32_t count = 0;

	for (struct launch **at = &shared.first; *at; at = &(*at)->next) {
		if (is_after_busy(*at, busy, count))
			continue;
		if (driver.cuEventQuery((*at)->buffer->event) != DRIVER_NOT_READY)
			return at;
		if (count < STREAMS_MAX)
			busy[count++] = *at;
	}
	return NULL;
}

/* Takes the first launch that has ended, else the oldest; NULL if the queue is empty. */
static struct launch *take_launch(struct reader_thread *thread)
{
	struct launch **at = find_ended();
	struct launch *launch;

	if (!at)
		at = &shared.first;
	launch = *at;
	if (!launch)
		return NULL;
	*at = launch->next;
	if (shared.last == &launch->next)
		shared.last = at;
	thread->number = launch->number;
	launch_reader_take_turn(launch);
	return launch;
}

/* ------------------------------------------------------------------ reading a launch */

/* A launch with a recorded event: waits for its end, and returns or drops its buffer. */
static void read_launch(struct launch_reader *reader, struct launch *launch)
{
	struct buffer *buffer = launch->buffer;
	void *popped;
	bool is_good = false;
	int result = driver.cuCtxPushCurrent(buffer->context);

	if (result == 0) {
		result = driver.cuEventSynchronize(buffer->event);
		if (result == 0)
			is_good = launch_reader_read(reader, launch, clock_monotonic_ns());
		else
			loss_of_launch("waiting for the launch", result);
		driver.cuCtxPopCurrent(&popped);
	} else {
		loss_of_launch("entering its context", result);
	}
	launch_reader_end_turn(launch);
	if (is_good)
		device_buffers_give(buffer);
	else
		device_buffers_drop(buffer);
}

/* The records of a graph's last replay. The buffer stays the graph's. */
static void read_graph(struct launch_reader *reader, struct launch *launch)
{
	int mode = driver_own_begin();
	void *popped;

	if (driver.cuCtxPushCurrent(launch->buffer->context) == 0) {
		/* Fails during a capture; the next flush tries again. */
		launch_reader_take_turn(launch);
		if (driver.cuCtxSynchronize() == 0)
			launch_reader_read(reader, launch, clock_monotonic_ns());
		launch_reader_end_turn(launch);
		driver.cuCtxPopCurrent(&popped);
	}
	driver_own_end(mode);
}

/* The lock is held, but released while it reads. */
static void read_one(struct reader_thread *thread, struct launch *launch)
{
	pthread_mutex_unlock(&shared.lock);
	read_launch(&thread->reader, launch);
	pthread_mutex_lock(&shared.lock);
	thread->number = 0;
	pthread_cond_broadcast(&shared.is_done);
}

/* ------------------------------------------------------------------ the threads */

static void *run_reader(void *thread);

/* The lock is held, but released while the thread is created. */
static void add_thread(void)
{
	struct reader_thread *thread = &threads[shared.thread_count];

	if (shared.is_starting || shared.thread_count >= shared.thread_limit)
		return;
	shared.is_starting = true;
	pthread_mutex_unlock(&shared.lock);
	int result = own_thread_start(&thread->pthread, run_reader, thread);
	pthread_mutex_lock(&shared.lock);
	shared.is_starting = false;
	if (result == 0)
		shared.thread_count++;
	else if (!shared.thread_count && !shared.has_failed) {
		shared.has_failed = true;
		message("cannot start a reader thread (error %d); records of instrumented kernels "
			"are read only when the session is flushed or ends",
			result);
	}
	pthread_cond_broadcast(&shared.is_done); /* launch_queue_stop() waits for this */
}

/*
 * While launches are frequent, one thread polls the queue: waking it would cost the launching
 * thread more than everything else that it does here. The lock is held.
 */
static void wait_for_work(void)
{
	for (int idle = 0; !shared.first && shared.is_running; idle++) {
		struct timespec until;

		if (idle >= POLLS) {
			shared.is_asleep = true;
			pthread_cond_wait(&shared.has_work, &shared.lock);
			shared.is_asleep = false;
			continue;
		}
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += POLL_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&shared.has_work, &shared.lock, &until);
	}
}

/* The next launch; NULL at the end. The lock is held. */
static struct launch *next_launch(struct reader_thread *thread)
{
	while (shared.is_polling && shared.is_running) {
		shared.idle_count++;
		pthread_cond_wait(&shared.is_wanted, &shared.lock);
		shared.idle_count--;
	}
	shared.is_polling = true;
	wait_for_work();
	struct launch *launch = take_launch(thread);
	shared.is_polling = false;
	/* More threads only if launches are waiting; usually one is enough. */
	if (launch && shared.first && find_ended()) {
		if (shared.idle_count)
			pthread_cond_signal(&shared.is_wanted);
		else
			add_thread();
	}
	return launch;
}

static void *run_reader(void *arg)
{
	struct reader_thread *thread = arg;
	struct launch *launch;

	pthread_setname_np(pthread_self(), "proton-intra");
	driver_own_begin(); /* so this thread does not invalidate graph captures */
	MUTEX_HOLD(&shared.lock);
	while ((launch = next_launch(thread)))
		read_one(thread, launch);
	return NULL;
}

void launch_queue_put(struct launch *launch)
{
	struct buffer *buffer = launch->buffer;
	bool is_recorded = buffer->is_of_graph ||
			   driver.cuEventRecord(buffer->event, driver_handle(launch->stream)) == 0;
	bool is_put = true;

	if (!is_recorded && launch->kernel)
		record_count(COUNTER_LOST_DAMAGED, 1);
	pthread_mutex_lock(&shared.lock);
	if (buffer->is_of_graph) {
		launch->next = shared.graphs;
		shared.graphs = launch;
	} else if (is_recorded && shared.is_running) {
		launch->next = NULL;
		launch->number = ++shared.put;
		*shared.last = launch;
		shared.last = &launch->next;
		if (!shared.thread_count)
			add_thread();
		else if (shared.is_asleep)
			pthread_cond_signal(&shared.has_work);
	} else {
		is_put = false;
	}
	pthread_mutex_unlock(&shared.lock);
	if (!is_put) /* the kernel may write to it: never reused */
		device_buffers_drop(buffer);
}

/* A quarter of the cores that the process may use. */
static uint32_t thread_limit(void)
{
	cpu_set_t cores;
	uint32_t limit = READER_THREADS_MAX;

	/* Fails for more than 1024 cores, which are enough. */
	if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
		limit = (uint32_t)CPU_COUNT(&cores) / 4;
	if (limit > READER_THREADS_MAX)
		return READER_THREADS_MAX;
	return limit ? limit : 1;
}

int launch_queue_start(const struct instrument_mode *mode, struct proton_error *err)
{
	int result = record_overhead_start(mode, err);

	if (result != PROTON_OK)
		return result;
	loss_start(!mode->has_launches);
	has_budget = mode->budget != 0;
	MUTEX_HOLD(&shared.lock);
	shared.thread_limit = thread_limit();
	shared.has_failed = false;
	shared.is_running = true;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ flushing */

/* True if every launch up to that number has been read. The lock is held. */
static bool is_read(uint64_t number)
{
	if (shared.first && shared.first->number <= number)
		return false;
	for (uint32_t i = 0; i < READER_THREADS_MAX; i++)
		if (threads[i].number && threads[i].number <= number)
			return false;
	return true;
}

/* Reads the oldest launch because there is no reader thread. The lock is held. */
static void read_here(void)
{
	int mode = driver_own_begin();

	read_one(&flusher, take_launch(&flusher));
	driver_own_end(mode);
}

static void await_launches(uint64_t number)
{
	MUTEX_HOLD(&shared.lock);
	pthread_cond_signal(&shared.has_work);
	while (!is_read(number)) {
		if (shared.first && !shared.thread_count && !shared.is_starting)
			read_here();
		else
			pthread_cond_wait(&shared.is_done, &shared.lock);
	}
}

static void read_all(void)
{
	MUTEX_HOLD(&flush_lock);
	pthread_mutex_lock(&shared.lock);
	uint64_t put = shared.put;
	struct launch *graphs = shared.graphs;
	struct launch *end = shared.graphs_end;
	pthread_mutex_unlock(&shared.lock);
	await_launches(put);
	for (struct launch *launch = graphs; launch != end; launch = launch->next)
		read_graph(&flusher.reader, launch);
}

void launch_queue_flush(void)
{
	read_all();
	if (has_budget)
		kernel_history_report_prices();
	loss_report_all();
}

static void end_threads(void)
{
	pthread_mutex_lock(&shared.lock);
	shared.is_running = false;
	while (shared.is_starting)
		pthread_cond_wait(&shared.is_done, &shared.lock);
	pthread_cond_broadcast(&shared.has_work);
	pthread_cond_broadcast(&shared.is_wanted);
	pthread_mutex_unlock(&shared.lock);
	for (uint32_t i = 0; i < shared.thread_count; i++)
		pthread_join(threads[i].pthread, NULL);
	shared.thread_count = 0;
	await_launches(shared.put); /* some were queued after the flush and read by no thread */
}

static void close_all(void)
{
	for (uint32_t i = 0; i < READER_THREADS_MAX; i++)
		launch_reader_fini(&threads[i].reader);
	launch_reader_fini(&flusher.reader);
	launch_timers_clear();
	device_clock_clear();
	kernel_history_clear();
	device_buffers_empty();
}

void launch_queue_stop(void)
{
	launch_queue_flush();
	MUTEX_HOLD(&flush_lock);
	end_threads();
	/* Graphs continue to exist and write into their buffers, which are never freed. */
	pthread_mutex_lock(&shared.lock);
	shared.graphs_end = shared.graphs;
	pthread_mutex_unlock(&shared.lock);
	close_all();
}

/* ------------------------------------------------------------------ fork */

/* The reader threads do not exist in the child, and what they held belongs to the parent. */
void launch_queue_forget(void)
{
	shared = (struct shared)SHARED_INITIAL;
	pthread_mutex_init(&flush_lock, NULL);
	memset(threads, 0, sizeof(threads));
	flusher = (struct reader_thread){0};
	device_clock_forget();
	loss_forget();
	launch_reader_forget();
	launch_timers_forget();
	kernel_history_forget();
}
