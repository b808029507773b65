/*
 * Table of sessions, its lock and the published session sets. Used by session.c and session_end.c,
 * which start and end sessions. All others use session.h.
 */
#ifndef RECORD_SESSION_REGISTRY_H
#define RECORD_SESSION_REGISTRY_H

#include "record/session/session.h"

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

/* Reserves space for session sets, once, before the first session. */
int registry_prepare(struct proton_error *err);
/* The live session of that id, NULL if there is none. The registry is locked. */
struct session *registry_find(int id);
/* Sets the E_RANGE error for an unknown session. */
int registry_no_such(int id, struct proton_error *err);
/* True for a live session that `id` names; PROTON_ALL_SESSIONS names all. */
bool registry_means(const struct session *session, int id);
uint32_t registry_live_count(void);
/* Waits until a session that another thread has ended is written; PROTON_ALL_SESSIONS: all. */
void registry_wait_written(int id);
void registry_free_texts(struct session *session);

#endif
