/*
 * The process-wide frames and calling contexts that every thread and session shares: small
 * integers. Looking up what exists takes no lock; adding takes one. They are not given back when
 * sessions end: a program's contexts recur. They never change meaning while the process lives, but
 * for names that were entered and cleared, see frame_names.h.
 */
#ifndef RECORD_NAMES_FRAMES_H
#define RECORD_NAMES_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/rows.h"

#define FRAME_NONE UINT32_MAX
/* "(other)", in which is what name_limits.h does not let have a frame or a context of its own. */
#define FRAME_OTHER 1u
#define FRAME_OTHER_KERNEL 2u

/* Reserves the tables; idempotent, called by the first start. */
int frames_init(struct proton_error *err);
bool frames_are_ready(void);

/* The rows of a frame; its strings are ids for frames_text(). */
const struct row_frame *frames_get(uint32_t frame);
const char *frames_text(uint32_t string, uint32_t *length_out);
uint32_t frames_string(const char *text, size_t length); /* STRING_NONE when memory is out */

/* The same for the value of a metric; that of "(other)" past the limit. */
uint32_t frames_value_text(const char *text, size_t length);

/* Found or made, "(other)" past the limit; FRAME_NONE when memory is out. */
uint32_t frames_add(enum frame_kind kind, const char *name, size_t length);
/*
 * The frame of a name that is to be entered below `parent`: as frames_add(), but "(other)" if it
 * would be one child too many, so that names without end make no frames without end.
 */
uint32_t frames_add_below(uint32_t parent, const char *name, size_t length);
/* The frame of the same name that stands for a kernel. */
uint32_t frames_as_kernel(uint32_t frame);

struct context {
	uint32_t parent;
	uint32_t frame;
};

struct context frames_context(uint32_t context);
/* Found or made, "(other)" past the limit; `parent` itself when memory is out. */
uint32_t frames_child(uint32_t parent, uint32_t frame);
/*
 * The context of a scope entered by name below `parent`; what is new may take the place of what was
 * cleared. *frame is its frame as the caller knows it, or 0; that of the context afterwards.
 * Without a name only a known one is found: FRAMES_CONTEXT_NONE. In a section.
 */
uint32_t frames_enter(uint32_t parent, const char *name, size_t length, uint32_t *frame);
#define FRAMES_CONTEXT_NONE UINT32_MAX
/* The names on the path of `context`, which a caller keeps, stay what they are. In a section. */
void frames_fix_path(uint32_t context);
/* The frame of a name; 0: none, or not to be found without the lock. In a section. */
uint32_t frames_find_name(const char *name, size_t length);

/*
 * What makes room for names, in this order, see reclaim_names.c. Names last used before tick
 * `limit` are marked as leaving; false if there are none. Those that no thread has come back to are
 * taken out, unless `keep_all`, and put in front of the list `first`. They may be used again.
 */
bool frames_reuse_mark(uint32_t limit);
uint32_t frames_reuse_unlist(uint32_t limit, uint32_t first, bool keep_all);
void frames_reuse_give(uint32_t first);

/* The context reached from `context` by the frames that lead from the root to `path`. */
uint32_t frames_append(uint32_t context, uint32_t path);

#endif
