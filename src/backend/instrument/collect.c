/* From buffers to profiles, in the background. See collect.h. */
#include "backend/instrument/collect.h"

#include <pthread.h>
#include <time.h>

#include "backend/instrument/cost.h"
#include "backend/instrument/driver.h"
#include "backend/instrument/places.h"
#include "backend/instrument/reader.h"
#include "backend/instrument/report.h"
#include "backend/instrument/tally.h"

/* How often the thread looks for work, and how many times before it waits to be woken: 100 ms. */
#define LOOK_NS 500000
#define LOOKS 200

static struct {
	pthread_mutex_t lock;
	pthread_cond_t has_work;
	pthread_cond_t is_done;
	pthread_t thread;
	bool is_running;
	bool is_stopping;
	bool is_waiting;      /* the thread, for work */
	struct buffer *first; /* the queue */
	struct buffer **last;
	uint64_t put; /* how many ever */
	uint64_t done;
	struct buffer *graphs; /* buffers that belong to graphs */
	struct buffer *left;   /* the same of sessions that have ended */
} shared = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.has_work = PTHREAD_COND_INITIALIZER,
	.is_done = PTHREAD_COND_INITIALIZER,
	.last = &shared.first,
};

static struct reader reader; /* the thread's own, or of who flushes while it is idle */

/* ------------------------------------------------------------------ the thread */

/* The first launch in the queue that has ended, else the oldest, NULL if none; locked. */
static struct buffer *take(void)
{
	struct buffer **at = &shared.first;
	struct buffer *buffer;

	while (*at && driver.cuEventQuery((*at)->event) == DRIVER_NOT_READY)
		at = &(*at)->next;
	if (!*at)
		at = &shared.first;
	buffer = *at;
	if (!buffer)
		return NULL;
	*at = buffer->next;
	if (shared.last == &buffer->next)
		shared.last = at;
	return buffer;
}

/*
 * While launches follow each other we look for them now and then: to wake a thread costs the
 * launching one more than all else that it does for us. The lock is held.
 */
static void wait_for_work(void)
{
	for (int idle = 0; !shared.first && !shared.is_stopping; idle++) {
		struct timespec until;

		if (idle >= LOOKS) {
			shared.is_waiting = true;
			pthread_cond_wait(&shared.has_work, &shared.lock);
			shared.is_waiting = false;
			continue;
		}
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&shared.has_work, &shared.lock, &until);
	}
}

static void *run(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "proton-intra");
	driver_enter(); /* whoever captures a graph is not disturbed by us */
	pthread_mutex_lock(&shared.lock);
	for (;;) {
		struct buffer *buffer;

		wait_for_work();
		buffer = take();
		if (!buffer)
			break;
		pthread_mutex_unlock(&shared.lock);
		reader_read(&reader, buffer);
		pthread_mutex_lock(&shared.lock);
		shared.done++;
		pthread_cond_broadcast(&shared.is_done);
	}
	pthread_mutex_unlock(&shared.lock);
	return NULL;
}

void collect_put(struct buffer *buffer)
{
	pthread_mutex_lock(&shared.lock);
	if (!shared.is_running) {
		/* The last session has ended meanwhile: it may be in use, so it is not reused. */
		pthread_mutex_unlock(&shared.lock);
		pool_drop(buffer);
		return;
	}
	buffer->next = NULL;
	*shared.last = buffer;
	shared.last = &buffer->next;
	shared.put++;
	if (shared.is_waiting)
		pthread_cond_signal(&shared.has_work);
	pthread_mutex_unlock(&shared.lock);
}

void collect_put_graph(struct buffer *buffer)
{
	pthread_mutex_lock(&shared.lock);
	buffer->next = shared.graphs;
	shared.graphs = buffer;
	pthread_mutex_unlock(&shared.lock);
}

int collect_start(const struct instrument_mode *mode, struct proton_error *err)
{
	int result = cost_start(mode, err);

	if (result != PROTON_OK)
		return result;
	report_start(!mode->has_launches);
	reader_start();
	shared.is_stopping = false;
	result = pthread_create(&shared.thread, NULL, run, NULL);
	if (result)
		return err_errno(err, result,
				 "cannot start the thread that reads kernels' records");
	pthread_mutex_lock(&shared.lock);
	shared.is_running = true;
	pthread_mutex_unlock(&shared.lock);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ flushing */

void collect_flush(void)
{
	uint64_t until;

	pthread_mutex_lock(&shared.lock);
	until = shared.put;
	pthread_cond_signal(&shared.has_work);
	while (shared.is_running && shared.done < until)
		pthread_cond_wait(&shared.is_done, &shared.lock);
	/* Graphs are looked at in the thread's place, so it must be idle, and is while we lock. */
	while (shared.is_running && shared.graphs && shared.done < shared.put)
		pthread_cond_wait(&shared.is_done, &shared.lock);
	for (struct buffer *buffer = shared.graphs; buffer; buffer = buffer->next)
		reader_read_graph(&reader, buffer);
	pthread_mutex_unlock(&shared.lock);
	report_all();
}

void collect_stop(void)
{
	struct buffer *buffer;

	collect_flush();
	pthread_mutex_lock(&shared.lock);
	shared.is_stopping = true;
	shared.is_running = false;
	pthread_cond_signal(&shared.has_work);
	pthread_mutex_unlock(&shared.lock);
	pthread_join(shared.thread, NULL);
	/* Graphs live on and write into theirs: that memory is never given back. */
	pthread_mutex_lock(&shared.lock);
	while ((buffer = shared.graphs) != NULL) {
		shared.graphs = buffer->next;
		buffer->next = shared.left;
		shared.left = buffer;
	}
	pthread_mutex_unlock(&shared.lock);
	reader_fini(&reader);
	places_clear();
	tally_clear();
	pool_empty();
}

void collect_forget(void)
{
	pthread_mutex_init(&shared.lock, NULL);
	pthread_cond_init(&shared.has_work, NULL);
	pthread_cond_init(&shared.is_done, NULL);
	shared.is_running = false;
	shared.is_stopping = false;
	shared.is_waiting = false;
	shared.first = NULL;
	shared.last = &shared.first;
	shared.put = 0;
	shared.done = 0;
	shared.graphs = NULL;
	reader = (struct reader){0};
	places_forget();
	report_forget();
}
