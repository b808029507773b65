/*
 * Sessions, their locks, and session sets. The set of active sessions is published as a small
 * integer, the "config", which a launch passes on to its records. Sessions may start, end and
 * change phase while a kernel runs; its record still finds the sessions that were active at its
 * launch.
 */
#pragma once

#include <pthread.h>

#include "base/region.h"
#include "export/export.h"
#include "record/backend.h"
#include "record/store/store.h"

#define SESSION_MAX 32u

struct session {
	pthread_mutex_t lock; /* guards the rest against records of other threads */
	/* Each event reads the next three without the lock: they are not on its line. */
	_Alignas(CACHE_LINE_BYTES) _Atomic bool is_live;
	_Atomic uint32_t serial; /* number of this use of the slot; matches config entries */
	_Atomic uint32_t owner;  /* the thread that adds to values, see adding.h */
	uint32_t paused_owner;
	bool is_active;
	bool was_active;   /* in the last set of active sessions; guarded by the registry's lock */
	bool wants_source; /* context "python" or "python+scopes" */
	bool wants_scopes; /* context "python+scopes" */
	uint32_t trace;    /* data "trace": its number among traces, from 1; else 0 */
	uint32_t flags;    /* PROTON_SESSION_* */
	int id;            /* id in the public API */
	char *path;        /* absolute output path without suffix; NULL for standard output */
	char *mode;
	char *format;          /* output format, unless finalize names another */
	bool is_ranked;        /* `path` has the rank, see format/rank.h */
	bool has_kept_earlier; /* nothing was recorded: the earlier output was not replaced */
	const struct export_format
		*periodic;            /* mode "periodic_flushing": format of its files; else NULL */
	uint32_t first_part;          /* earlier phases are written or cleared */
	struct profile *written_part; /* copy of the last part that was written; NULL: none */
	uint32_t written_phase;       /* its phase; both are guarded by the registry's lock */
	uint32_t snapshots;           /* that were written under a name of the session */
	const struct backend *backend;
	uint64_t start_ns; /* monotonic */
	pthread_t ender;   /* the thread that writes the output after the session has ended */
	struct store store;
};

struct config_entry {
	uint32_t slot;
	uint32_t serial;
	uint32_t epoch;
	uint8_t wants_source;
	uint8_t wants_memory;
	uint16_t trace; /* as in the session */
};

/* The context of `where` for a session of that entry. */
static inline uint32_t session_context(const struct config_entry *entry,
				       struct proton_context where)
{
	return entry->wants_source ? where.source : where.shadow;
}

/* Configs are stored one after another in units of 8 bytes. */
_Static_assert(sizeof(struct config_entry) % 8 == 0, "layout");

/* Set in the id of a config with a trace: a check needs no access to the config. */
#define CONFIG_TRACED (1u << 29)
/* The same for a session with context "python+scopes". */
#define CONFIG_SCOPED (1u << 30)

struct config {
	uint32_t count;
	uint32_t wants_source; /* true if any entry does */
	struct config_entry entries[];
};

/* For variables of the scope path: read without the address from a table of the linker. */
#define SESSION_DIRECT __attribute__((visibility("hidden")))

/* Generation of live sessions: odd while any is live. Scopes of earlier generations are gone. */
extern _Atomic uint32_t session_generation SESSION_DIRECT;
/* The config of new launches; 0 = no session is active. */
extern _Atomic uint32_t session_config SESSION_DIRECT;

static inline bool session_any_live(void)
{
	/* acquire: pairs with the release at start, which makes the session's data visible */
	return atomic_load_explicit(&session_generation, memory_order_acquire) & 1;
}

/* The serial of the most recently started session; 0 if there was none. */
uint32_t session_newest_serial(void);

const struct config *session_config_get(uint32_t config);

/* The entry's session, locked, if it is still the same session; else NULL. */
struct session *session_lock_entry(const struct config_entry *entry);

/* The sessions of a config, one after another. The walk has to come to its end. */
struct session_walk {
	uint32_t sessions;           /* id of the config */
	const struct config *config; /* NULL: by the id */
	struct session *(*lock)(
		const struct config_entry *entry); /* such as session_lock_entry() */
	uint32_t next;
	const struct config_entry *entry;
	struct session *session; /* locked until the next step */
};

/* False: there are no more. */
bool session_walk(struct session_walk *walk);

/* Rebuilds and publishes the config after a change. The registry is locked. */
void session_publish(void);
/* Makes the locks of sessions and reserves space for session sets, once. */
int session_prepare(struct proton_error *err);

/* Table of sessions and its lock. */

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

/* The session, with the registry locked; NULL and E_RANGE, not locked: there is none. */
struct session *registry_get(int id, struct proton_error *err);
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
