/*
 * Process-wide frames and calling contexts, shared by all threads and sessions as small integers.
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

/* For fork(). Lock order: frames_reuse_lock, a session, frames_lock. */
extern pthread_mutex_t frames_reuse_lock; /* one name is replaced at a time */
extern pthread_mutex_t frames_lock;       /* guards all additions */

/* Reserves the tables; idempotent, called by the first start. */
int frames_init(struct proton_error *err);
bool frames_are_ready(void);

/* The row of a frame; its strings are ids for frames_text(). */
const struct row_frame *frames_get(uint32_t frame);
const char *frames_text(uint32_t string, uint32_t *length_out);
uint32_t frames_string(const char *text, size_t length); /* STRING_NONE if out of memory */

/* The same for a metric value; that of "(other)" above the limit. */
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

struct context {
	uint32_t parent;
	uint32_t frame;
};

struct context frames_context(uint32_t context);
/* Found or made, "(other)" above the limit; `parent` itself if out of memory. */
uint32_t frames_child(uint32_t parent, uint32_t frame);
/*
 * Frame `frame` has a new text: updates the files that contain the frame. `has_moved`: it needs
 * more space there than before. False: some file has no space.
 */
typedef bool (*frames_rename_fn)(uint32_t frame, bool has_moved);
/*
 * The context of a scope entered by name below `parent`; a new name may take the place of a cleared
 * one, with `rename`. *frame: the caller's known frame, or 0; on return that of the context.
 * Without a name only a known context is found, else FRAMES_CONTEXT_NONE. Call it in a section.
 */
uint32_t frames_enter(uint32_t parent, const char *name, size_t length, frames_rename_fn rename,
		      uint32_t *frame);
#define FRAMES_CONTEXT_NONE UINT32_MAX
/*
 * Keeps the names on the path of `context` unchanged, because a caller keeps it. Call it in a
 * section.
 */
void frames_fix_path(uint32_t context);
/* The frame of a name; 0: none, or not found without the lock. Call it in a section. */
uint32_t frames_find_name(const char *name, size_t length);

/*
 * Steps of reclaiming names, in this order, see reclaim_names.c. Names last used before tick
 * `limit` are set to leaving; false if there are none. Those that no thread used since are removed,
 * unless `keep_all`, and put in front of the list `first`. Then they may be reused.
 */
bool frames_reuse_mark(uint32_t limit);
uint32_t frames_reuse_unlist(uint32_t limit, uint32_t first, bool keep_all);
void frames_reuse_give(uint32_t first);

/* The context reached from `context` by the frames that lead from the root to `path`. */
uint32_t frames_append(uint32_t context, uint32_t path);

#endif
