/* Postponing backends until the driver is initialized. */
#include "record/session/await_driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "record/backend_use.h"

static _Atomic bool is_awaited;
static _Atomic pid_t
	reported_by; /* the process in which the driver has reported its initialization */
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct proton_error failure;
static pid_t failed; /* the process in which a backend failed to resume; 0: none */

void proton_await_driver(void)
{
	atomic_store(&is_awaited, true);
}

bool await_driver_is_pending(void)
{
	return atomic_load(&is_awaited) && atomic_load(&reported_by) != getpid();
}

static void keep_failure(const struct proton_error *why)
{
	pthread_mutex_lock(&failure_lock);
	failure = *why;
	failed = getpid();
	pthread_mutex_unlock(&failure_lock);
}

int proton_driver_initialises(struct proton_error *err)
{
	const struct backend *backend;
	struct proton_error why;
	int status = PROTON_OK;

	/* Before asking the backends: one that is being started either sees this, or is asked. */
	atomic_store(&reported_by, getpid());
	for (size_t i = 0; (backend = backend_at(i)) && status == PROTON_OK; i++)
		status = backend_use_resume(backend, &why);
	if (status == PROTON_OK)
		return PROTON_OK;
	keep_failure(&why);
	return err_set(err, status, "%s", why.text);
}

int await_driver_failure(struct proton_error *err)
{
	int status = PROTON_OK;

	pthread_mutex_lock(&failure_lock);
	if (failed == getpid())
		status = err_set(err, failure.status, "no GPU activity was recorded: %s",
				 failure.text);
	pthread_mutex_unlock(&failure_lock);
	return status;
}
