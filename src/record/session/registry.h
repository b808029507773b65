/*
 * The table of sessions, its lock and what is published of it. For those who start and end
 * sessions: session.c and session_end.c. All others go through session.h.
 */
#ifndef RECORD_SESSION_REGISTRY_H
#define RECORD_SESSION_REGISTRY_H

#include "record/session/session.h"

enum slot_state {
	SLOT_FREE,
	SLOT_STARTING, /* its backend is being started; the registry is not locked meanwhile */
	SLOT_LIVE,
	SLOT_ENDING, /* its output is being written */
};

struct registry {
	pthread_mutex_t lock;   /* before any session's lock */
	pthread_cond_t changed; /* a slot left SLOT_STARTING or SLOT_ENDING */
	struct session sessions[SESSION_MAX];
	enum slot_state slots[SESSION_MAX];
	_Atomic uint32_t next_serial;
	_Atomic bool is_owned;     /* by the proton command */
	_Atomic bool program_ends; /* as far as is known: a start says otherwise */
};

extern struct registry registry;

/* Once, before the first session: reserves room for configs. */
int registry_prepare(struct proton_error *err);
/* The live session of that id, NULL if there is none; locked. */
struct session *registry_find(int id);
/* E_RANGE in words. */
int registry_no_such(int id, struct proton_error *err);
/* A live session that `id` names, or any live one for PROTON_ALL_SESSIONS. */
bool registry_means(const struct session *session, int id);
uint32_t registry_live_count(void);
/* Waits until a session that another thread has ended is written; PROTON_ALL_SESSIONS: all. */
void registry_wait_written(int id);
void registry_free_texts(struct session *session);

#endif
