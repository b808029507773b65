/* The holder of the program's threads. */
#include "record/thread/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include <libproton/proton.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while threads are */
static const struct proton_holder *_Atomic holder;

void proton_holder_set(const struct proton_holder *new_holder)
{
	pthread_mutex_lock(&lock);
	atomic_store(&holder, new_holder);
	pthread_mutex_unlock(&lock);
}

bool holder_is_set(void)
{
	return atomic_load_explicit(&holder, memory_order_relaxed);
}

bool holder_begin(void)
{
	const struct proton_holder *used;

	pthread_mutex_lock(&lock);
	used = atomic_load(&holder);
	if (used && used->begin())
		return true;
	pthread_mutex_unlock(&lock);
	return false;
}

void holder_end(void)
{
	atomic_load(&holder)->end();
	pthread_mutex_unlock(&lock);
}

bool holder_covers_here(void)
{
	const struct proton_holder *used = atomic_load_explicit(&holder, memory_order_relaxed);

	return used && used->covers();
}

void holder_fork_child(void)
{
	pthread_mutex_init(&lock, NULL);
}
