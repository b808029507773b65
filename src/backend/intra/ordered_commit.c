/* Turns of launches: in queue order per kernel. */
#include "backend/intra/ordered_commit.h"

#include <pthread.h>

#include "backend/intra/loaded_kernels.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_over = PTHREAD_COND_INITIALIZER;

static bool has_turn(const struct buffer *buffer)
{
	return buffer->kernel && buffer->is_kept;
}

void commit_take(struct buffer *buffer)
{
	if (!has_turn(buffer))
		return;
	pthread_mutex_lock(&lock);
	buffer->turn = buffer->kernel->turns++;
	pthread_mutex_unlock(&lock);
}

/* The lock is held. */
static void await(const struct buffer *buffer)
{
	while (buffer->kernel->turns_over != buffer->turn)
		pthread_cond_wait(&is_over, &lock);
}

void commit_await(const struct buffer *buffer)
{
	if (!has_turn(buffer))
		return;
	pthread_mutex_lock(&lock);
	await(buffer);
	pthread_mutex_unlock(&lock);
}

void commit_end(const struct buffer *buffer)
{
	if (!has_turn(buffer))
		return;
	pthread_mutex_lock(&lock);
	await(buffer);
	buffer->kernel->turns_over++;
	pthread_cond_broadcast(&is_over);
	pthread_mutex_unlock(&lock);
}

void commit_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&is_over, NULL);
}
