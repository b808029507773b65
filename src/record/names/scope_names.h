/* Scopes entered by name, and the steps of reclaiming names, see reused_names.h. */
#ifndef RECORD_NAMES_SCOPE_NAMES_H
#define RECORD_NAMES_SCOPE_NAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
