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
#ifndef RECORD_NAMES_REUSED_NAMES_H
#define RECORD_NAMES_REUSED_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/region.h"

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

#endif
