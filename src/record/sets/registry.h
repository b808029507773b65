/* Table of sessions and its lock. */
#ifndef RECORD_SETS_REGISTRY_H
#define RECORD_SETS_REGISTRY_H

#include "record/sets/session.h"

enum slot_state {
	SLOT_FREE,
	SLOT_STARTING, /* its backend is being started, with the registry unlocked */
	SLOT_LIVE,
	SLOT_ENDING, /* its output is being written */
};

struct registry {
	pthread_mutex_t lock;   /* taken before any session's lock */
	pthread_cond_t changed; /* a slot is no longer SLOT_STARTING or SLOT_ENDING */
	struct session sessions[SESSION_MAX];
	enum slot_state slots[SESSION_MAX];
	_Atomic uint32_t next_serial;
	_Atomic bool is_owned;     /* owned by the proton command */
	_Atomic bool program_ends; /* as far as is known: a start resets it */
};

extern struct registry registry;

/* The session, with the registry locked until registry_put(); NULL and E_RANGE: none. */
struct session *registry_get(int id, struct proton_error *err);
void registry_put(void);
/*
 * The next live session after `previous` (NULL: from the first on) that `id` names; NULL: there is
 * none. PROTON_ALL_SESSIONS names all. The registry is locked.
 */
struct session *registry_next(struct session *previous, int id);
/* The next live session, locked; `previous` is unlocked. For loops that come to their end: NULL. */
struct session *registry_lock_next(struct session *previous);
uint32_t registry_live_count(void);
/* True if a live session with this id (PROTON_ALL_SESSIONS: any) uses the backend. */
bool registry_uses(int id, const struct backend *backend);
/* Flushes the backends of these sessions; no lock is held while a vendor library works. */
int registry_flush_backends(int id, struct proton_error *err);
/* A scope_names_rename_fn: updates the files of all live sessions. */
bool registry_rename(uint32_t frame, bool has_moved);
/* True while a session that has ended is writing its output. */
bool registry_is_writing(void);
/* Waits until a session that another thread has ended is written; PROTON_ALL_SESSIONS: all. */
void registry_wait_written(int id);
/* Also forgets its part. */
void registry_free_texts(struct session *session);
/* The copy of `phase` if it was written last; else NULL. The registry is locked. */
const struct profile *registry_part(const struct session *session, uint32_t phase);
void registry_forget_part(struct session *session);
/* In the child of a fork: there are no sessions. */
void registry_fork_child(void);

#endif
