/*
 * Adding to a session's rows without its lock. Each thread has its own lock
 * (record/thread/thread_trace.h) and holds it while it adds numbers to existing rows; making rows
 * requires the session's lock.
 *
 * While a single thread adds to a session it owns the values: plain loads and stores. When a second
 * one comes, the session becomes shared: from then on values are changed by atomic operations, and
 * counters that every thread increments are spread over several cache lines. Clearing, reading and
 * ending the session need constant values and pause them: threads then take the session's lock, and
 * wait.
 */
#pragma once

#include "record/sets/session.h"
#include "record/thread/thread_trace.h"

extern pthread_mutex_t adding_pause_lock; /* for fork() */

struct adding {
	struct trace_thread *thread; /* the calling one, locked */
	struct store *store;
	bool is_shared;
	uint32_t stripe; /* stripe of the counters */
};

/* True: may add to the session's existing rows until adding_end(). False: adding_lock(). */
bool adding_begin(const struct config_entry *entry, struct adding *out);
void adding_end(const struct adding *adding);

/* Locks the session for changing values: session_lock_entry(). No lock may be held. */
struct session *adding_lock(const struct config_entry *entry);

/* Locks the session and pauses its values. The caller holds the registry, or no lock. */
void adding_pause(struct session *session);
void adding_resume(struct session *session);
/* The session has ended: waits until no thread adds to it. */
void adding_stop(struct session *session);
