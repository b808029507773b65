/* Table of sessions. */
#include <libproton/proton.h>

#include "base/mutex.h"
#include "record/sets/session.h"

#include <stdio.h>

#include "base/array.h"
#include "model/profile.h"
#include "record/backend.h"

struct registry registry = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.next_serial = 1,
};

static bool is_named(const struct session *session, int id)
{
	return id == PROTON_ALL_SESSIONS || session->id == id;
}

struct session *registry_next(struct session *previous, int id)
{
	struct session *session = previous ? previous + 1 : registry.sessions;

	for (; session < registry.sessions + SESSION_MAX; session++)
		if (session->is_live && is_named(session, id))
			return session;
	return NULL;
}

struct session *registry_lock_next(struct session *previous)
{
	struct session *session = previous ? previous + 1 : registry.sessions;

	if (previous)
		pthread_mutex_unlock(&previous->lock);
	for (; session < registry.sessions + SESSION_MAX; session++) {
		pthread_mutex_lock(&session->lock);
		if (session->is_live)
			return session;
		pthread_mutex_unlock(&session->lock);
	}
	return NULL;
}

struct session *registry_get(int id, struct proton_error *err)
{
	pthread_mutex_lock(&registry.lock);
	struct session *session = id == PROTON_ALL_SESSIONS ? NULL : registry_next(NULL, id);
	if (!session) {
		pthread_mutex_unlock(&registry.lock);
		err_set(err, PROTON_E_RANGE,
			"Session has not been initialized: %d; it was not started, or has been "
			"finalized",
			id);
	}
	return session;
}

bool proton_is_profiling(void)
{
	return session_any_live();
}

uint32_t registry_live_count(void)
{
	uint32_t count = 0;

	for (struct session *at = NULL; (at = registry_next(at, PROTON_ALL_SESSIONS));)
		count++;
	return count;
}

void registry_free_texts(struct session *session)
{
	FREE_ALL(session->path, session->mode, session->format);
	session->path = NULL;
	session->mode = NULL;
	session->format = NULL;
	registry_forget_part(session);
}

const struct profile *registry_part(const struct session *session, uint32_t phase)
{
	return session->written_phase == phase ? session->written_part : NULL;
}

void registry_forget_part(struct session *session)
{
	profile_free(session->written_part);
	session->written_part = NULL;
}

const char *proton_session_backend(int id)
{
	struct session *session = registry_get(id, NULL);
	const char *name = session ? session->backend->name : NULL;

	if (session)
		pthread_mutex_unlock(&registry.lock);
	return name;
}

size_t proton_session_path(int id, char *path, size_t capacity)
{
	const struct session *session = registry_get(id, NULL);
	int length = snprintf(path, capacity, "%s", session && session->path ? session->path : "");

	if (session)
		pthread_mutex_unlock(&registry.lock);
	return length > 0 ? (size_t)length : 0;
}

bool registry_is_writing(void)
{
	bool found = false;

	MUTEX_HOLD(&registry.lock);
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		found = found || registry.slots[slot] == SLOT_ENDING;
	return found;
}

void registry_wait_written(int id)
{
	uint32_t newest = session_newest_serial();
	uint32_t slot = 0;

	MUTEX_HOLD(&registry.lock);
	while (slot < SESSION_MAX) {
		const struct session *session = &registry.sessions[slot];

		/*
		 * Not for the calling thread itself: a signal handler of the program that calls
		 * exit() may have interrupted it. Not for sessions that began later: there may
		 * always be another one.
		 */
		if (registry.slots[slot] == SLOT_ENDING &&
		    !pthread_equal(session->ender, pthread_self()) && session->serial <= newest &&
		    is_named(session, id)) {
			pthread_cond_wait(&registry.changed, &registry.lock);
			slot = 0; /* the registry was unlocked: start over */
		} else {
			slot++;
		}
	}
}

bool registry_uses(int id, const struct backend *backend)
{
	bool is_used = false;

	MUTEX_HOLD(&registry.lock);
	for (struct session *at = NULL; (at = registry_next(at, id));)
		is_used |= at->backend == backend;
	return is_used;
}

int registry_flush_backends(int id, struct proton_error *err)
{
	const struct backend *backend;
	int status = PROTON_OK;

	for (size_t i = 0; (backend = backend_at(i)); i++) {
		int result = registry_uses(id, backend) ? backend_use_flush(backend, err)
							: PROTON_OK;

		if (result != PROTON_OK)
			status = result;
	}
	return status;
}

bool registry_rename(uint32_t frame, bool has_moved)
{
	bool has_space = true;

	for (struct session *session = NULL; (session = registry_lock_next(session));)
		has_space &= store_rename(&session->store, frame, has_moved);
	return has_space;
}

void registry_fork_child(void)
{
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		struct session *session = &registry.sessions[slot];

		if (registry.slots[slot] != SLOT_FREE) {
			store_fini(&session->store, false);
			registry_free_texts(session);
		}
		session->is_live = false;
		session->is_active = false;
		registry.slots[slot] = SLOT_FREE;
	}
	atomic_store(&registry.is_owned, false);
	atomic_store(&session_config, 0);
	if (session_any_live())
		atomic_fetch_add(&session_generation, 1);
	pthread_cond_init(&registry.changed, NULL);
}

void proton_own_sessions(void)
{
	atomic_store_explicit(&registry.is_owned, true, memory_order_relaxed);
}

bool proton_sessions_are_owned(void)
{
	return atomic_load_explicit(&registry.is_owned, memory_order_relaxed);
}
