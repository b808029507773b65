/*
 * Process-wide frames, shared by all threads and sessions as small integers.
 * Lookups of existing ones take no lock; additions take one. They are kept when sessions end,
 * because a program's contexts recur. Their meaning never changes, except for names that were
 * entered and cleared: see reused_names.h.
 */
#ifndef RECORD_NAMES_FRAMES_H
#define RECORD_NAMES_FRAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/rows.h"

#define FRAME_NONE UINT32_MAX
/* "(other)": stands for names that exceed the limits of name_limits.h. */
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

/* A communicator's number of ranks. `id` is equal in all ranks of it, and not 0. */
void communicators_note(uint64_t id, uint32_t ranks);
/* Finds or adds several communicators that are used together, with the sum of their ids. */
void communicators_note_several(uint64_t id, uint32_t count);
/* The frame of a scope on a communicator: "NAME [8 ranks]"; `name` if there are too many. */
uint32_t communicators_frame(uint32_t name, uint64_t id);
/* The communicator of the innermost such scope in a context; 0: there is none. */
uint64_t communicators_of(uint32_t context);

/* Scopes entered by name, and the steps of reclaiming names, see reused_names.h. */

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

#endif
