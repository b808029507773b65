/* Mutexes that are held until the end of a block, on whatever way it is left. Has pthread.h. */
#pragma once

#include <pthread.h>

static inline pthread_mutex_t *mutex_take(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	return mutex;
}

static inline void mutex_give(pthread_mutex_t *const *held)
{
	pthread_mutex_unlock(*held);
}

/* A statement: takes the mutex, and gives it back after the block, and after what it returns. */
#define MUTEX_HOLD(mutex) MUTEX_HOLD_AT(mutex, __LINE__)
#define MUTEX_HOLD_AT(mutex, line) MUTEX_HOLD_AS(mutex, line) /* for the number of the line */
#define MUTEX_HOLD_AS(mutex, line)                                                                 \
	pthread_mutex_t *const mutex_held_##line                                                   \
		__attribute__((cleanup(mutex_give), unused)) = mutex_take(mutex)
