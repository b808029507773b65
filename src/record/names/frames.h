/*
 * Process-wide frames, shared by all threads and sessions as small integers.
 * Lookups of existing ones take no lock; additions take one. They are kept when sessions end,
 * because a program's contexts recur. Their meaning never changes, except for names that were
 * entered and cleared: see below.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/region.h"
#include "format/rows.h"

#define FRAME_NONE UINT32_MAX
/* "(other)": stands for names that exceed the limits. */
#define FRAME_OTHER 1u
#define FRAME_OTHER_KERNEL 2u

extern pthread_mutex_t frames_lock; /* guards all additions */

/* Reserves the tables; idempotent, called by the first start. */
int frames_init(struct proton_error *err);
bool frames_are_ready(void);

/* The row of a frame; its strings are ids for frames_text(). */
const struct row_frame *frames_get(uint32_t frame);
const char *frames_text(uint32_t string, uint32_t *length_out);
uint32_t frames_string(const char *text, size_t length); /* STRING_NONE if out of memory */

/* The frame of a metric value; "(other)" above the limit. */
uint32_t frames_value_text(const char *text, size_t length);

/* Found or made, "(other)" above the limit; FRAME_NONE if out of memory. */
uint32_t frames_add(enum frame_kind kind, const char *name, size_t length);
/*
 * The frame of a name to enter below `parent`: like frames_add(), but "(other)" if `parent` has too
 * many children. An unlimited number of names therefore does not make an unlimited number of
 * frames.
 */
uint32_t frames_add_below(uint32_t parent, const char *name, size_t length);
/* The kernel frame of the same name. */
uint32_t frames_as_kernel(uint32_t frame);

/* The frame of a name; 0: none, or not found without the lock. Call it in a section. */
uint32_t frames_find_name(const char *name, size_t length);

/* Process-wide tree of calling contexts: frames below contexts. Lookups take no lock. */

struct context {
	uint32_t parent;
	uint32_t frame;
};

struct context context_tree_get(uint32_t context);
/* Found or made, "(other)" above the limit; `parent` itself if out of memory. */
uint32_t context_tree_child(uint32_t parent, uint32_t frame);
/* True if context_tree_child() has returned `parent` because memory is missing. */
static inline bool context_tree_is_lost(uint32_t parent, uint32_t child)
{
	return child == parent && context_tree_get(parent).frame != FRAME_OTHER;
}
/* The context reached from `context` by the frames that lead from the root to `path`. */
uint32_t context_tree_append(uint32_t context, uint32_t path);
/* Keeps the names on the path of `context`, which a caller keeps. Call it in a section. */
void context_tree_fix_path(uint32_t context);

/*
 * Communicators of collectives: the scope in which a library such as NCCL launches on one is named
 * for it, and collectives below that scope are compared between its ranks. Tables of the process
 * that only grow; lookups take no lock.
 */

extern pthread_mutex_t communicators_lock; /* guards all additions */

/*
 * A communicator's number of ranks. `id` is equal in all ranks of it, and not 0. Several
 * communicators that are used together have the sum of their ids, and
 * COMMUNICATORS_SEVERAL + their number as `ranks`.
 */
void communicators_note(uint64_t id, uint32_t ranks);
#define COMMUNICATORS_SEVERAL (1u << 31)
/* The frame of a scope on a communicator: "NAME [8 ranks]"; `name` if there are too many. */
uint32_t communicators_frame(uint32_t name, uint64_t id);
/* The communicator of the innermost such scope in a context; 0: there is none. */
uint64_t communicators_of(uint32_t context);

/* Scopes entered by name, and the steps of reclaiming names, see below. */

/* One name is replaced at a time. Lock order: scope_names_lock, a session, frames_lock. */
extern pthread_mutex_t scope_names_lock;

/* `frame` has a new text: updates its files. `has_moved`: more space. False: a file has none. */
typedef bool (*scope_names_rename_fn)(uint32_t frame, bool has_moved);
/*
 * The context of a scope entered by name below `parent`; a new name may take the place of a cleared
 * one, with `rename`. *frame: the caller's known frame, or 0; on return the context's frame, or
 * FRAME_NONE if memory is missing: then the context is `parent`, and the loss has been counted.
 * Without a name only a known context is found, else SCOPE_NAMES_NONE. Call it in a section.
 */
uint32_t scope_names_enter(uint32_t parent, const char *name, size_t length,
			   scope_names_rename_fn rename, uint32_t *frame);
#define SCOPE_NAMES_NONE UINT32_MAX

/*
 * Steps of reclaiming names, in this order, see reclaim_names.c. Names last used before tick
 * `limit` are set to leaving; false if there are none. Those that no thread used since are removed,
 * unless `keep_all`, and put in front of the list `first`. Then they may be reused.
 */
bool scope_names_mark(uint32_t limit);
uint32_t scope_names_unlist(uint32_t limit, uint32_t first, bool keep_all);
void scope_names_give(uint32_t first);

/* Process-wide names of user metrics: each is parsed once, and then is a small integer. */

#define METRIC_NAME_NONE UINT32_MAX

struct metric_name {
	uint32_t text;  /* frames_string() of the name without suffix */
	uint32_t flags; /* enum metric_flag */
};

extern pthread_mutex_t metric_names_lock; /* for fork() */

/* Makes flags of "(exc)", "(pty)", "(inc)" at the end. METRIC_NAME_NONE: lost, and counted. */
uint32_t metric_names_add(const char *name);
struct metric_name metric_names_get(uint32_t id);
/* False for an id that metric_names_add() has not returned. */
bool metric_names_exists(uint32_t id);

/*
 * Limits on the number of names in a process: an unlimited number of scopes, kernels, metrics and
 * texts (a service that names its scopes after requests) must not take unlimited memory. Names
 * above a limit are recorded as "(other)" and counted.
 */

#define LIMITS_OTHER "(other)"
#define LIMITS_METRICS 16384u /* metric names */
#define LIMITS_TEXTS 65536u   /* different values of text metrics */
#define LIMITS_TEXT_BYTES (16ull << 20)

struct limits {
	uint32_t children;   /* per context; PROTON_MAX_CHILDREN */
	uint32_t contexts;   /* per process; PROTON_MAX_CONTEXTS */
	uint32_t names;      /* per process; PROTON_MAX_NAMES */
	uint64_t name_bytes; /* total size of all these strings */
};

extern struct limits name_limits;

/* Reads the environment, once, before the first frame is made. */
void name_limits_read(void);

/* Counts of the process, for all sessions together; a store takes those since its beginning. */
enum limits_count {
	LIMITS_FOLDED,  /* names that were recorded as "(other)", or could not be recorded */
	LIMITS_LOST,    /* data lost for lack of memory or address space */
	LIMITS_ORIGINS, /* launches of COUNTER_ORIGIN_UNKNOWN */
	LIMITS_COUNTS
};

/* From any thread. */
void name_limits_count(enum limits_count count);
uint64_t name_limits_counted(enum limits_count count);
/* Counts LIMITS_LOST, and prints one line. */
void name_limits_lose(void);

/*
 * Reusable names. A frame that was made for a scope entered by name has one context. When no kept
 * phase, no open scope and no pending record needs them, both can be given to another name below
 * the same parent: the ids stay, the text is replaced.
 *
 * Each phase of each session begins with a tick of one counter. Code that pairs a context with a
 * session set for a later record notes the context: the names on its path were used at this tick. A
 * name noted before the first kept phase of every session began is unneeded: records that still
 * arrive for it belong to cleared phases, and are counted as lost.
 *
 * Between finding a name and noting it (or adding it to a thread's open scopes) a thread is in a
 * section (thread_self.h). Reclaiming waits for the sections, see reclaim_names.c.
 */

enum name_state {
	NAME_FIXED,   /* a frame for the life of the process */
	NAME_LIVE,    /* may be replaced by another name */
	NAME_LEAVING, /* about to be replaced, unless a thread needs it */
	NAME_FREE,    /* waits for another name; no thread finds it */
};

struct name {
	_Atomic uint32_t word;  /* version << 2 | enum name_state */
	_Atomic uint32_t owner; /* the context; 0: the frame never was NAME_LIVE */
	_Atomic uint32_t last;  /* tick of its last use */
	uint32_t next;          /* next in a free list */
	uint32_t capacity;      /* size of its text's entry, here and in files; 0: as needed */
};

extern struct region reused_names_space; /* reserved by frames_init() */

static inline struct name *reused_names_of(uint32_t frame)
{
	return (struct name *)reused_names_space.base + frame;
}

/* Changes when the frame is given to another name. */
static inline uint32_t reused_names_word(uint32_t frame)
{
	/* acquire: pairs with reused_names_set(), which makes the text visible */
	return atomic_load_explicit(&reused_names_of(frame)->word, memory_order_acquire);
}

static inline enum name_state reused_names_state(uint32_t frame)
{
	return (enum name_state)(reused_names_word(frame) & 3);
}

/* A phase begins: names noted from now on are used by it or a later one. */
uint32_t reused_names_tick(void);
/* Sets the last use of the names on the path of `context` to now. */
void reused_names_note(uint32_t context);
/* Number of names made or reused so far. */
uint64_t reused_names_made(void);

/* Call the following functions with the frames locked. */
void reused_names_set(uint32_t frame, enum name_state state);
/* Makes `frame` a reusable name; `context` is its only context. */
void reused_names_make(uint32_t frame, uint32_t context);
/* The frame is given to another name, which is in use from now on. */
void reused_names_renew(uint32_t frame);
/* Takes a free name below `parent`, 0 if there is none. */
uint32_t reused_names_take(uint32_t parent);
bool reused_names_has_free(uint32_t parent);
void reused_names_give(uint32_t parent, uint32_t frame);
