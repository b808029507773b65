/*
 * Periodic flush thread: moves records to the profile while the program runs, not only when a
 * session is flushed. The vendor's library returns a buffer when it is full, which never happens in
 * a small program. A program that is killed or calls _exit() loses its buffers.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A thread of the recorder that works at intervals until it is stopped. */

struct periodic_thread {
	pthread_t thread;
	pid_t owner;          /* process that has the thread: a forked child does not; 0: none */
	pthread_mutex_t lock; /* guards `must_end` */
	pthread_cond_t ending;
	bool must_end;
};

/* Nothing if it runs in this process. `run` calls periodic_thread_wait() before each round. */
void periodic_thread_start(struct periodic_thread *thread, void *(*run)(void *));
/* Waits for `ns`; false if the thread has to end. On the thread. */
bool periodic_thread_wait(struct periodic_thread *thread, uint64_t ns);
/* Ends the thread and waits for it. Nothing if it does not run in this process. */
void periodic_thread_stop(struct periodic_thread *thread);

/*
 * Asks for complete records while there are launches. Both functions may be NULL: `on_idle` is
 * called after 0.5 to 1 s idle, `on_round` at first, and every 0.5 s while a session is active.
 */
void flush_thread_start(void (*on_idle)(void), void (*on_round)(void));
/* True if no session is active. */
bool flush_thread_is_idle(void);
/* Ends the thread and waits for it. */
void flush_thread_stop(void);
/* The loop of such a thread until it has to end. A backend with its own thread calls it there. */
void flush_thread_run(struct periodic_thread *self, void (*on_idle)(void), void (*on_round)(void));
