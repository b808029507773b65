/*
 * Internal tables of frames and contexts, shared by frames.c, context_tree.c and scope_names.c. All
 * additions need frames_lock. Lookups need it too, or a section (record/thread/thread_self.h).
 */
#pragma once

#include "base/map.h"
#include "base/region.h"
#include "base/strings.h"
#include "record/names/frames.h"

struct frame_tables {
	struct strings strings;
	struct region frames;   /* struct row_frame; row 0 is the root's */
	struct region twins;    /* u32 per frame: the kernel frame of the same name, 0 = unknown */
	struct region contexts; /* of context_tree.c */
	struct map frame_map;   /* hash of the content -> frame */
	uint32_t frame_count;
};

extern struct frame_tables frame_tables;

/* The content of a frame before it has an id. */
struct frame_content {
	enum frame_kind kind;
	uint32_t line;
	const char *name;
	const char *file;
	size_t name_length;
	size_t file_length;
};

/* The content of a name, cut to the maximum size. */
struct frame_content frames_content(enum frame_kind kind, const char *name, size_t length);
/*
 * The frame with this content, or 0 with *key_out the first free key of its probe sequence: two
 * contents with equal 64-bit hashes (never seen, but allowed) use neighboring keys.
 */
uint32_t frames_find(const struct frame_content *content, uint64_t *key_out);
/* Makes a frame for new content; "(other)" above the limit, FRAME_NONE if out of memory. */
uint32_t frames_make(uint64_t key, const struct frame_content *content);

static inline bool frames_is_other(uint32_t frame)
{
	return frame == FRAME_OTHER || frame == FRAME_OTHER_KERNEL;
}

static inline uint32_t frames_other_of(uint32_t kind)
{
	return kind == FRAME_KERNEL ? FRAME_OTHER_KERNEL : FRAME_OTHER;
}

/* No further context may be made below it. Without the lock, the answer may be outdated. */
bool context_tree_is_full(uint32_t context);
/* The child, 0 if there is none. */
uint32_t context_tree_find(uint32_t parent, uint32_t frame);
/* Finds or makes a context; above the limit, "(other)". */
uint32_t context_tree_add(uint32_t parent, uint32_t frame);
/* There is no second level of "(other)" below "(other)". */
bool context_tree_repeats_other(uint32_t parent, uint32_t frame);
