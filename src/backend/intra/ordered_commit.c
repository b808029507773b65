/* Turns of launches: in queue order per kernel. */
#include "backend/intra/ordered_commit.h"

#include <pthread.h>

#include "backend/intra/loaded_kernels.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_over = PTHREAD_COND_INITIALIZER;

static bool has_turn(const struct launch *launch)
{
	return launch->kernel && launch->is_traced;
}

void commit_take(struct launch *launch)
{
	if (!has_turn(launch))
		return;
	pthread_mutex_lock(&lock);
	launch->turn = launch->kernel->turns++;
	pthread_mutex_unlock(&lock);
}

/* The lock is held. */
static void await_turn(const struct launch *launch)
{
	while (launch->kernel->turns_ended != launch->turn)
		pthread_cond_wait(&is_over, &lock);
}

void commit_await(const struct launch *launch)
{
	if (!has_turn(launch))
		return;
	pthread_mutex_lock(&lock);
	await_turn(launch);
	pthread_mutex_unlock(&lock);
}

void commit_end(const struct launch *launch)
{
	if (!has_turn(launch))
		return;
	pthread_mutex_lock(&lock);
	await_turn(launch);
	launch->kernel->turns_ended++;
	pthread_cond_broadcast(&is_over);
	pthread_mutex_unlock(&lock);
}

void commit_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&is_over, NULL);
}
