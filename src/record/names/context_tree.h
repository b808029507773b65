/* Process-wide tree of calling contexts: frames below contexts. Lookups take no lock. */
#ifndef RECORD_NAMES_CONTEXT_TREE_H
#define RECORD_NAMES_CONTEXT_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "record/names/frames.h"

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

#endif
