/* Programs that replay graphs, on this thread or another, and a holder of their threads. */
#pragma once

#include "unit/cuda/pcs_session.h"

#include "base/clock.h"

__attribute__((unused)) static void replay(uint32_t exec)
{
	fake.graph_launch(exec, "node", false);
}

/* A thread that replays a graph at each request, and lives until it has to end. */
static struct {
	pthread_t thread;
	pid_t tid;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t exec;
	int wanted; /* replays */
	int done;
	bool must_end;
} other = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

__attribute__((unused)) static void *replay_on_request(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&other.lock);
	other.tid = gettid();
	while (!other.must_end) {
		if (other.done < other.wanted) {
			replay(other.exec);
			other.done++;
			pthread_cond_broadcast(&other.changed);
		} else {
			pthread_cond_wait(&other.changed, &other.lock);
		}
	}
	pthread_mutex_unlock(&other.lock);
	return NULL;
}

__attribute__((unused)) static void other_begin(uint32_t exec)
{
	other.exec = exec;
	CHECK_EQ(pthread_create(&other.thread, NULL, replay_on_request, NULL), 0);
}

__attribute__((unused)) static void other_replay(void)
{
	pthread_mutex_lock(&other.lock);
	other.wanted++;
	pthread_cond_broadcast(&other.changed);
	while (other.done < other.wanted)
		pthread_cond_wait(&other.changed, &other.lock);
	pthread_mutex_unlock(&other.lock);
}

__attribute__((unused)) static void other_end(void)
{
	pthread_mutex_lock(&other.lock);
	other.must_end = true;
	pthread_cond_broadcast(&other.changed);
	pthread_mutex_unlock(&other.lock);
	pthread_join(other.thread, NULL);
	/* The kernel removes a thread shortly after it can be joined. */
	for (int i = 0; i < 60000 && other.tid && tgkill(getpid(), other.tid, 0) == 0; i++)
		usleep(500);
}

/* A runtime that covers every thread, as Python does. */
static _Atomic int holds;
static _Atomic bool is_held;
static uint32_t subscribed_at_begin;
static uint32_t enabled_at_end;
static _Thread_local bool is_holder; /* not a thread that shows where others wait for the end */

__attribute__((unused)) static bool hold(void)
{
	if (atomic_exchange(&is_held, true))
		return true;
	is_holder = true;
	atomic_fetch_add(&holds, 1);
	subscribed_at_begin = fake.calls("cuptiSubscribe");
	return true;
}

__attribute__((unused)) static void let_go(void)
{
	if (!is_holder)
		return;
	is_holder = false;
	enabled_at_end = fake.pcs_period(&gpu0);
	atomic_store(&is_held, false);
}

__attribute__((unused)) static bool covers(void)
{
	return true;
}

__attribute__((unused)) static const struct proton_holder holder = {hold, let_go, covers};
