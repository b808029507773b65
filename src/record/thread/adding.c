/*
 * Adding to a session's rows without its lock.
 *
 * Lock order: the registry, adding_pause_lock, the list of threads, a thread, a session. Code that
 * waits for threads must not hold a session's lock.
 */
#include "record/thread/adding.h"

#include <sched.h>

#include "base/mutex.h"
#include "record/thread/thread_self.h"

/* Values of session.owner; others are a thread's number + OWNER_FIRST. */
enum owner {
	OWNER_NONE,
	OWNER_SHARED,
	OWNER_PAUSED,
	OWNER_FIRST,
};

pthread_mutex_t adding_pause_lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t owner_of(const struct thread *thread)
{
	return thread ? thread->ordinal + OWNER_FIRST : UINT32_MAX;
}

/* True if thread `mine` may add; *is_shared_out tells how. */
static bool may_add(struct session *session, uint32_t mine, bool *is_shared_out)
{
	/* acquire: pairs with the release in resume(), which makes the stripes visible */
	uint32_t owner = atomic_load_explicit(&session->owner, memory_order_acquire);

	if (owner == OWNER_NONE && mine != UINT32_MAX &&
	    atomic_compare_exchange_strong_explicit(&session->owner, &owner, mine,
						    memory_order_acquire, memory_order_acquire))
		owner = mine;
	*is_shared_out = owner == OWNER_SHARED;
	return owner == mine || owner == OWNER_SHARED;
}

bool adding_begin(const struct config_entry *entry, struct adding *out)
{
	struct session *session = &registry.sessions[entry->slot];
	struct thread *thread = thread_self;

	if (!thread)
		return false;
	thread_trace_lock(&thread->trace);
	/* The end of a session clears is_live, then waits for this thread's lock. */
	if (session->is_live && session->serial == entry->serial &&
	    may_add(session, owner_of(thread), &out->is_shared)) {
		out->thread = &thread->trace;
		out->store = &session->store;
		out->stripe = thread->ordinal;
		return true;
	}
	thread_trace_unlock(&thread->trace);
	return false;
}

void adding_end(const struct adding *adding)
{
	thread_trace_unlock(adding->thread);
}

/* Waits until a thread has left its current operation under its own lock. */
static void await_thread(struct trace_thread *thread)
{
	thread_trace_lock(thread);
	thread_trace_unlock(thread);
}

/* Takes the values away from the threads; returns the previous owner. adding_pause_lock is held. */
static uint32_t take_values(struct session *session)
{
	uint32_t before =
		atomic_exchange_explicit(&session->owner, OWNER_PAUSED, memory_order_acq_rel);

	thread_trace_each(await_thread);
	return before;
}

static void give_values(struct session *session, uint32_t owner)
{
	/* release: pairs with may_add() */
	atomic_store_explicit(&session->owner, owner, memory_order_release);
}

/* Makes the session shared by several threads, if it is still the same session. */
static void share_store(struct session *session, uint32_t serial)
{
	MUTEX_HOLD(&adding_pause_lock);
	uint32_t before = take_values(session);
	MUTEX_HOLD(&session->lock);
	if (session->is_live && session->serial == serial) {
		store_counters_share(&session->store);
		before = OWNER_SHARED;
	}
	give_values(session, before);
}

struct session *adding_lock(const struct config_entry *entry)
{
	uint32_t mine = owner_of(thread_self);

	for (;;) {
		struct session *session = session_lock_entry(entry);

		if (!session)
			return NULL;
		if (may_add(session, mine, &session->store.is_shared)) {
			session->store.stripe = session->store.is_shared ? mine : 0;
			return session;
		}
		pthread_mutex_unlock(&session->lock);
		if (atomic_load_explicit(&session->owner, memory_order_relaxed) == OWNER_PAUSED)
			sched_yield(); /* the caller takes the lock next */
		else
			share_store(session, entry->serial);
	}
}

void adding_pause(struct session *session)
{
	pthread_mutex_lock(&adding_pause_lock);
	session->paused_owner = take_values(session);
	pthread_mutex_lock(&session->lock);
}

void adding_resume(struct session *session)
{
	give_values(session, session->paused_owner);
	pthread_mutex_unlock(&session->lock);
	pthread_mutex_unlock(&adding_pause_lock);
}

void adding_stop(struct session *session)
{
	MUTEX_HOLD(&adding_pause_lock);
	take_values(session);
}
