/* fork() handlers: the child has consistent tables, free locks and no sessions. */
#include "record/session/fork.h"

#include <pthread.h>

#include "base/array.h"
#include "record/backend_use.h"
#include "record/names/communicators.h"
#include "record/names/frames.h"
#include "record/names/metric_names.h"
#include "record/names/scope_names.h"
#include "record/sets/registry.h"
#include "record/store/code_objects.h"
#include "record/store/devices.h"
#include "record/store/gpu_functions.h"
#include "record/thread/adding.h"
#include "record/thread/holder.h"
#include "record/thread/thread.h"
#include "record/thread/thread_trace.h"

/* Locks that guard data which the child needs, in the order in which they are taken. */
static pthread_mutex_t *const before_sessions[] = {
	&registry.lock,
	&adding_pause_lock,
	&scope_names_lock,
};
static pthread_mutex_t *const after_sessions[] = {
	&backend_use_lock, &metric_names_lock,  &communicators_lock, &frames_lock,
	&devices_lock,     &gpu_functions_lock, &code_objects_lock,  &thread_trace_list_lock,
};

static void on_all_locks(int (*act)(pthread_mutex_t *lock))
{
	for (size_t i = 0; i < ARRAY_LENGTH(before_sessions); i++)
		act(before_sessions[i]);
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		act(&registry.sessions[slot].lock);
	for (size_t i = 0; i < ARRAY_LENGTH(after_sessions); i++)
		act(after_sessions[i]);
}

static int reset_lock(pthread_mutex_t *lock)
{
	return pthread_mutex_init(lock, NULL);
}

static void prepare(void)
{
	on_all_locks(pthread_mutex_lock);
}

static void on_parent(void)
{
	on_all_locks(pthread_mutex_unlock);
}

static void on_child(void)
{
	on_all_locks(reset_lock);
	backend_use_fork_child();
	registry_fork_child();
	thread_fork_child();
	holder_fork_child();
}

void fork_install(void)
{
	pthread_atfork(prepare, on_parent, on_child);
}
