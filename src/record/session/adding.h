/*
 * Adding to a session's rows without its lock. Each thread has a lock of its own
 * (record/thread/thread_trace.h), which it holds while it adds a number to rows that exist; what
 * makes rows takes the session's.
 *
 * While one thread alone adds to a session it owns the values: plain loads and stores. When a
 * second one comes, the session becomes shared: the values are changed by atomic operations from
 * then on, and counters that every thread increments are spread over several cache lines. What
 * needs the values to stand still (clearing, reading, the end of the session) pauses them: threads
 * then take the session's lock, and wait.
 */
#ifndef RECORD_SESSION_ADDING_H
#define RECORD_SESSION_ADDING_H

#include <stdbool.h>

#include "record/session/session.h"

struct thread;

struct adding {
	struct thread *thread;
	struct store *store;
	bool is_shared;
	uint32_t stripe; /* of the counters */
};

/*
 * The calling thread may add to rows of the entry's session that exist, until adding_end(). False:
 * it has to take the session's lock, by adding_lock().
 */
bool adding_begin(const struct config_entry *entry, struct adding *out);
void adding_end(const struct adding *adding);

/*
 * The session, locked, for a thread that changes values: as session_lock_entry(). Not while the
 * thread holds a lock.
 */
struct session *adding_lock(const struct config_entry *entry);

/* Locks the session with its values standing still; the registry is locked, or nothing is. */
void adding_pause(struct session *session);
void adding_resume(struct session *session);
/* The session has ended: waits until no thread adds to it any more. */
void adding_stop(struct session *session);

#endif
