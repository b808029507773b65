/* A thread of the recorder that works at intervals until it is stopped. */
#ifndef BACKEND_GPU_PERIODIC_THREAD_H
#define BACKEND_GPU_PERIODIC_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

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

#endif
