/* fork() handlers: the child has consistent tables, free locks and no sessions. */
#include "record/session/fork.h"

#include <pthread.h>

#include "record/thread/thread_trace.h"

static void prepare(void)
{
	session_fork_prepare();
	backend_use_fork_prepare();
	metric_names_fork_prepare();
	frames_fork_prepare();
	devices_fork_prepare();
	trace_fork_prepare();
}

static void parent(void)
{
	trace_fork_parent();
	devices_fork_parent();
	frames_fork_parent();
	metric_names_fork_parent();
	backend_use_fork_parent();
	session_fork_parent();
}

static void child(void)
{
	devices_fork_child();
	frames_fork_child();
	metric_names_fork_child();
	backend_use_fork_child();
	session_fork_child();
	thread_fork_child();
}

void fork_guard_install(void)
{
	pthread_atfork(prepare, parent, child);
}
