/* Times of launches by events. */
#include "backend/intra/launch_timer.h"

#include <stdatomic.h>

#include "base/mutex.h"
#include "driver/driver.h"

/* More launches are not timed at once. */
#define TIMERS_MAX 64u
/*
 * On an idle device, the time until the host has launched the kernel, about 5 us, is in the time of
 * a launch. Shorter launches say nothing then.
 */
#define IDLE_NS_MIN 200000

struct timer {
	struct timer *next;
	void *context;
	void *before, *after; /* events */
	struct loop *loop;
	uint32_t variant;
	uint64_t entered; /* at the begin */
	bool is_idle;     /* the device was idle before the launch */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the lists */
static struct timer *idle;
static struct timer *waiting; /* in the order of the launches */
static struct timer **last = &waiting;
static uint32_t count; /* of all timers */
static _Thread_local struct timer *running;

static _Atomic uint64_t entered;   /* launches of all threads */
static _Atomic uint32_t launching; /* threads now in one */
static _Thread_local bool is_launching;

static void free_timer(struct timer *timer)
{
	if (timer->before)
		driver.cuEventDestroy(timer->before);
	if (timer->after)
		driver.cuEventDestroy(timer->after);
	free(timer);
}

static void give_idle(struct timer *timer)
{
	MUTEX_HOLD(&lock);
	timer->next = idle;
	idle = timer;
}

static struct timer *make_timer(void *context)
{
	struct timer *timer = calloc(1, sizeof(*timer));
	int mode = driver_own_begin();
	bool is_ok = timer && driver.cuEventCreate(&timer->before, DRIVER_EVENT_TIMING) == 0 &&
		     driver.cuEventCreate(&timer->after, DRIVER_EVENT_TIMING) == 0;

	if (is_ok)
		timer->context = context;
	else if (timer)
		free_timer(timer);
	driver_own_end(mode);
	if (is_ok)
		return timer;
	MUTEX_HOLD(&lock);
	count--;
	return NULL;
}

static struct timer *take_timer(void *context)
{
	struct timer *found = NULL;
	struct timer **at = &idle;

	pthread_mutex_lock(&lock);
	while (*at && (*at)->context != context)
		at = &(*at)->next;
	if ((found = *at))
		*at = found->next;
	bool can_make = !found && count < TIMERS_MAX;
	count += can_make;
	pthread_mutex_unlock(&lock);
	return can_make ? make_timer(context) : found;
}

void launch_timer_begin(struct loop *loop, uint32_t variant, uint64_t stream)
{
	void *context = NULL;

	if (!is_launching) /* else the last launch failed */
		atomic_fetch_add(&launching, 1);
	is_launching = true;
	uint64_t entered_now = atomic_fetch_add(&entered, 1) +
			       1; /* first: a thread may enter now */
	if (running) {            /* the launch that it was for has failed */
		give_idle(running);
		running = NULL;
	}
	if (!loop || atomic_load(&launching) != 1 || !driver.cuEventElapsedTime ||
	    driver.cuCtxGetCurrent(&context) != 0 || !context)
		return;
	struct timer *timer = take_timer(context);
	if (!timer)
		return;
	timer->loop = loop;
	timer->variant = variant;
	timer->entered = entered_now;
	if (driver.cuEventRecord(timer->before, driver_handle(stream)) == 0)
		running = timer;
	else
		give_idle(timer);
}

void launch_timer_end(uint64_t stream)
{
	struct timer *timer = running;

	if (is_launching)
		atomic_fetch_sub(&launching, 1);
	is_launching = false;
	running = NULL;
	if (!timer)
		return;
	int mode = driver_own_begin(); /* a query would invalidate captures */
	timer->is_idle = driver.cuEventQuery(timer->before) != DRIVER_NOT_READY;
	driver_own_end(mode);
	if (atomic_load(&entered) != timer->entered ||
	    driver.cuEventRecord(timer->after, driver_handle(stream)) != 0) {
		give_idle(timer);
		return;
	}
	MUTEX_HOLD(&lock);
	timer->next = NULL;
	*last = timer;
	last = &timer->next;
}

/* Takes the first launch of the context if it has ended; NULL if it has not. */
static struct timer *take_ended(void *context)
{
	struct timer **at = &waiting;
	struct timer *timer = NULL;

	MUTEX_HOLD(&lock);
	while (*at && (*at)->context != context)
		at = &(*at)->next;
	if (*at && driver.cuEventQuery((*at)->after) != DRIVER_NOT_READY) {
		timer = *at;
		*at = timer->next;
		if (last == &timer->next)
			last = at;
	}
	return timer;
}

void launch_timers_read(void)
{
	struct timer *timer;
	void *context = NULL;
	float ms;

	if (driver.cuCtxGetCurrent(&context) != 0 || !context)
		return;
	int mode = driver_own_begin();
	while ((timer = take_ended(context))) {
		if (driver.cuEventElapsedTime(&ms, timer->before, timer->after) == 0 &&
		    1e6 * ms >= (timer->is_idle ? IDLE_NS_MIN : 1))
			closed_loop_time(timer->loop, timer->variant, (uint64_t)(1e6 * ms));
		give_idle(timer);
	}
	driver_own_end(mode);
}

/* The events of timers that are still running on other threads are kept. */
void launch_timers_clear(void)
{
	struct timer *timer;
	void *popped;

	MUTEX_HOLD(&lock);
	*last = idle;
	idle = NULL;
	while ((timer = waiting)) {
		waiting = timer->next;
		count--;
		if (driver.cuCtxPushCurrent(timer->context) != 0) {
			free(timer);
			continue;
		}
		free_timer(timer);
		driver.cuCtxPopCurrent(&popped);
	}
	last = &waiting;
}

void launch_timers_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	idle = waiting = running = NULL; /* the parent's */
	last = &waiting;
	count = 0;
	atomic_store(&launching, 0);
	is_launching = false;
}
