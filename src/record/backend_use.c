/* Starting and stopping of backends without holding a lock. */
#include "base/mutex.h"
#include "record/backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libproton/proton.h>

#define BACKEND_MAX 8u
#define MODE_MAX 4096u /* all options of instrumentation take about 300 bytes */

enum state {
	STOPPED,
	STARTING,
	RUNNING,
	CHANGING, /* changing the kind of records */
	STOPPING,
};

struct use {
	enum state state;
	uint32_t users;
	uint32_t memory_users;
	uint32_t flushes; /* in progress */
	bool is_resting;
	char mode[MODE_MAX];
};

pthread_mutex_t backend_use_lock = PTHREAD_MUTEX_INITIALIZER; /* guards `uses` */
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static struct use uses[BACKEND_MAX];
static _Thread_local bool is_moving;

static struct use *use_of_backend(const struct backend *backend)
{
	uint32_t i = 0;

	while (i < BACKEND_MAX - 1 && backend_at(i) != backend)
		i++;
	return &uses[i];
}

bool backend_use_is_moving_here(void)
{
	return is_moving;
}

/* The backend works now: releases the lock until settle_use(). */
static void move_use(struct use *use, enum state state)
{
	use->state = state;
	pthread_mutex_unlock(&backend_use_lock);
	is_moving = true;
}

static void settle_use(struct use *use, enum state state)
{
	is_moving = false;
	pthread_mutex_lock(&backend_use_lock);
	use->state = state;
	pthread_cond_broadcast(&moved);
}

/* Called with the lock held; releases it while the backend works. */
static int start_backend(const struct backend *backend, struct use *use, const char *mode,
			 struct proton_error *err)
{
	move_use(use, STARTING);
	int status = backend->start(mode, err);
	settle_use(use, status == PROTON_OK ? RUNNING : STOPPED);
	use->is_resting = false;
	if (status == PROTON_OK)
		snprintf(use->mode, sizeof(use->mode), "%s", mode);
	return status;
}

/* Backends of GPU vendors share their state (backend/gpu). Called with the lock held. */
static int check_other_gpu(const struct backend *backend, struct proton_error *err)
{
	const struct backend *other;

	for (size_t i = 0; backend->records_gpu && (other = backend_at(i)); i++)
		if (other != backend && other->records_gpu &&
		    use_of_backend(other)->state != STOPPED)
			return err_set(err, PROTON_E_BUSY,
				       "the backend \"%s\" cannot start while \"%s\" records in "
				       "this process; end its sessions first",
				       backend->name, other->name);
	return PROTON_OK;
}

/* Waits until no thread starts, stops or changes it. Called with the lock held. */
static void wait_settled(struct use *use)
{
	while (use->state != STOPPED && use->state != RUNNING && !is_moving)
		pthread_cond_wait(&moved, &backend_use_lock);
}

/* Adds or removes a user of memory records. The lock is released while the backend works. */
static int count_memory(const struct backend *backend, struct use *use, bool is_more,
			struct proton_error *err)
{
	bool is_edge = is_more ? use->memory_users == 0 : use->memory_users == 1;
	int status = PROTON_OK;

	if (is_edge && backend->set_memory) {
		move_use(use, CHANGING);
		status = backend->set_memory(is_more, err);
		settle_use(use, RUNNING);
	}
	if (status == PROTON_OK || !is_more)
		use->memory_users += is_more ? 1 : UINT32_MAX;
	return status;
}

/* Called with the lock held; releases it while the backend works. */
static int change_backend(struct use *use, int (*change)(struct proton_error *err),
			  struct proton_error *err)
{
	move_use(use, CHANGING);
	int status = change(err);
	settle_use(use, RUNNING);
	return status;
}

/* Wakes a backend that has rested. The lock is released while it works. */
static int wake_backend(const struct backend *backend, struct use *use, struct proton_error *err)
{
	int status = PROTON_OK;

	if (use->state == RUNNING && use->is_resting) {
		status = change_backend(use, backend->wake, err);
		use->is_resting = status != PROTON_OK;
	}
	return status;
}

/* The lock is held. */
static void release(const struct backend *backend, struct use *use, bool wants_memory)
{
	wait_settled(use);
	if (wants_memory && use->memory_users)
		count_memory(backend, use, false, NULL);
	if (use->users && --use->users == 0) {
		move_use(use, STOPPING);
		backend->stop();
		settle_use(use, STOPPED);
	}
}

int backend_use_take(const struct backend *backend, const char *mode, bool wants_memory,
		     struct proton_error *err)
{
	struct use *use = use_of_backend(backend);
	int status = PROTON_OK;

	if (is_moving)
		return err_set(err, PROTON_E_STATE, "this thread is already starting a session");
	if (strlen(mode) >= MODE_MAX)
		return err_set(err, PROTON_E_INVALID, "the mode is longer than %u bytes",
			       MODE_MAX - 1);
	MUTEX_HOLD(&backend_use_lock);
	wait_settled(use);
	if (use->state == STOPPED) {
		status = check_other_gpu(backend, err);
		if (status == PROTON_OK)
			status = start_backend(backend, use, mode, err);
	} else if (strcmp(use->mode, mode) != 0)
		status = err_set(err, PROTON_E_INVALID,
				 "Cannot add a session with the same profiler but a different "
				 "mode than existing sessions; they use \"%.200s\"",
				 *use->mode ? use->mode : "default");
	if (status == PROTON_OK)
		status = wake_backend(backend, use, err);
	if (status == PROTON_OK) {
		use->users++;
		if (wants_memory)
			status = count_memory(backend, use, true, err);
		if (status != PROTON_OK)
			release(backend, use, false);
	}
	return status;
}

void backend_use_release(const struct backend *backend, bool wants_memory)
{
	MUTEX_HOLD(&backend_use_lock);
	release(backend, use_of_backend(backend), wants_memory);
}

int backend_use_flush(const struct backend *backend, struct proton_error *err)
{
	struct use *use = use_of_backend(backend);

	pthread_mutex_lock(&backend_use_lock);
	while (use->state == CHANGING && !is_moving)
		pthread_cond_wait(&moved, &backend_use_lock);
	bool runs = use->state == RUNNING && use->users;
	if (runs) {
		use->users++;
		use->flushes++;
	}
	pthread_mutex_unlock(&backend_use_lock);
	if (!runs)
		return PROTON_OK;
	int status = backend->flush(err);
	pthread_mutex_lock(&backend_use_lock);
	use->flushes--;
	pthread_cond_broadcast(&moved);
	release(backend, use, false);
	pthread_mutex_unlock(&backend_use_lock);
	return status;
}

/* Called with the lock held; releases it while the backend works. */
static void rest_backend(const struct backend *backend, struct use *use, bool is_end)
{
	move_use(use, CHANGING);
	bool rests = backend->rest(is_end);
	settle_use(use, RUNNING);
	use->is_resting = rests;
}

void backend_use_rest(const struct backend *backend, bool (*is_idle)(void))
{
	struct use *use = use_of_backend(backend);

	if (!backend->rest || is_moving)
		return;
	MUTEX_HOLD(&backend_use_lock);
	if (use->state == RUNNING && !use->is_resting && !use->flushes && is_idle())
		rest_backend(backend, use, false);
}

bool backend_use_change(const struct backend *backend, void (*change)(void))
{
	struct use *use = use_of_backend(backend);
	MUTEX_HOLD(&backend_use_lock);
	bool is_free = use->state == RUNNING && !use->is_resting && !use->flushes;

	if (is_free) {
		move_use(use, CHANGING);
		change();
		settle_use(use, RUNNING);
	}
	return is_free;
}

void backend_use_end(const struct backend *backend)
{
	struct use *use = use_of_backend(backend);

	if (!backend->rest || is_moving)
		return;
	MUTEX_HOLD(&backend_use_lock);
	wait_settled(use);
	while (use->state == RUNNING && use->flushes) {
		pthread_cond_wait(&moved, &backend_use_lock);
		wait_settled(use);
	}
	if (use->state == RUNNING && !use->is_resting && use->users == 1)
		rest_backend(backend, use, true);
}

int backend_use_wake(const struct backend *backend, struct proton_error *err)
{
	struct use *use = use_of_backend(backend);

	if (!backend->wake || is_moving)
		return PROTON_OK;
	MUTEX_HOLD(&backend_use_lock);
	wait_settled(use);
	return wake_backend(backend, use, err);
}

bool proton_leave_vendor(void)
{
	const struct backend *backend;
	bool is_free = true;

	MUTEX_HOLD(&backend_use_lock);
	for (size_t i = 0; (backend = backend_at(i)); i++) {
		struct use *use = use_of_backend(backend);

		if (!backend->leave)
			continue;
		wait_settled(use);
		if (use->state != STOPPED || is_moving) {
			is_free = false;
			continue;
		}
		move_use(use, STOPPING);
		is_free &= backend->leave();
		settle_use(use, STOPPED);
	}
	return is_free;
}

void proton_prime_vendor(void)
{
	const struct backend *backend;

	MUTEX_HOLD(&backend_use_lock);
	for (size_t i = 0; (backend = backend_at(i)); i++) {
		struct use *use = use_of_backend(backend);

		if (!backend->prime || is_moving || use->state != STOPPED)
			continue;
		move_use(use, STARTING);
		backend->prime();
		settle_use(use, STOPPED);
	}
}

/* The driver is being initialized: passes that on to the backend if it runs; see backend.h. */
static int resume_backend(const struct backend *backend, struct proton_error *err)
{
	struct use *use = use_of_backend(backend);
	int status = PROTON_OK;

	/* A start on this thread that initializes the driver is about to begin anyway. */
	if (!backend->resume || is_moving)
		return PROTON_OK;
	MUTEX_HOLD(&backend_use_lock);
	wait_settled(use);
	if (use->state == RUNNING)
		status = change_backend(use, backend->resume, err);
	return status;
}

void backend_use_fork_child(void)
{
	const struct backend *backend;

	for (size_t i = 0; (backend = backend_at(i)); i++)
		if (backend->forked)
			backend->forked();
	/* A thread that was starting or stopping a backend does not exist in the child. */
	memset(uses, 0, sizeof(uses));
	is_moving = false;
	pthread_cond_init(&moved, NULL);
}

/* ------------------------------------------------------------------ waiting for the driver */

/*
 * Postponing backends until the driver is initialized. Under the `proton` command the NVIDIA driver
 * reports its initialization (CUDA_INJECTION64_PATH). Until then a backend does not touch the
 * vendor library: its threads would be missing in a child that the program forks first.
 */

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

bool backend_use_awaits_driver(void)
{
	return atomic_load(&is_awaited) && atomic_load(&reported_by) != getpid();
}

int proton_driver_initialises(struct proton_error *err)
{
	const struct backend *backend;
	struct proton_error why;
	int status = PROTON_OK;

	/* Before asking the backends: one that is being started either sees this, or is asked. */
	atomic_store(&reported_by, getpid());
	for (size_t i = 0; (backend = backend_at(i)) && status == PROTON_OK; i++)
		status = resume_backend(backend, &why);
	if (status == PROTON_OK)
		return PROTON_OK;
	MUTEX_HOLD(&failure_lock);
	failure = why;
	failed = getpid();
	return err_set(err, status, "%s", why.text);
}

int backend_use_driver_failure(struct proton_error *err)
{
	int status = PROTON_OK;

	MUTEX_HOLD(&failure_lock);
	if (failed == getpid())
		status = err_set(err, failure.status, "no GPU activity was recorded: %s",
				 failure.text);
	return status;
}
