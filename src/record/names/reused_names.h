/*
 * Names that are used again. A frame that was made for a scope entered by name has one context.
 * Once no phase that is kept, no open scope and nothing under way needs them, both can be another
 * name's below the same parent: the ids stay, the text is replaced.
 *
 * How that is known: each phase of each session begins with a tick of one counter. Who pairs a
 * context with a set of sessions (a config), for a record that may come later, notes it: the names
 * on its path were used at this tick. A name noted before the first kept phase of every session
 * began is needed by none: what still comes for it is of phases that were cleared, and is lost.
 *
 * Between finding a name and noting it (or having it among a thread's open scopes) a thread is in a
 * section (thread_self.h). What takes names out waits for the sections, see reclaim_names.c.
 */
#ifndef RECORD_NAMES_REUSED_NAMES_H
#define RECORD_NAMES_REUSED_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/region.h"

enum name_state {
	NAME_FIXED,   /* a frame for the life of the process */
	NAME_LIVE,    /* may become another name */
	NAME_LEAVING, /* is about to, unless somebody needs it */
	NAME_FREE,    /* waits for another name; nobody finds it */
};

struct name {
	_Atomic uint32_t word;  /* version << 2 | enum name_state */
	_Atomic uint32_t owner; /* the context; 0: of a frame that never was NAME_LIVE */
	_Atomic uint32_t last;  /* tick of its last use */
	uint32_t next;          /* in a list of free ones */
	uint32_t capacity;      /* bytes of its text's entry, here and in files; 0: as needed */
};

extern struct region names_space;

int names_init(struct proton_error *err);

static inline struct name *name_of(uint32_t frame)
{
	return (struct name *)names_space.base + frame;
}

/* Changes when the frame becomes another name's. */
static inline uint32_t name_word(uint32_t frame)
{
	/* acquire: pairs with names_set(), so that the text is visible */
	return atomic_load_explicit(&name_of(frame)->word, memory_order_acquire);
}

static inline enum name_state name_state(uint32_t frame)
{
	return (enum name_state)(name_word(frame) & 3);
}

/* A phase begins: what is noted from now on is of it or a later one. */
uint32_t names_tick(void);
/* Now is the last use of the names on the path of `context`. */
void names_note(uint32_t context);
/* Names made or used again so far. */
uint64_t names_made(void);

/* The following with the frames locked. */
void names_set(uint32_t frame, enum name_state state);
/* `frame` is a name that may be used again; `context` is its only one. */
void names_make(uint32_t frame, uint32_t context);
/* The frame becomes another name's, which is in use from now on. */
void names_renew(uint32_t frame);
/* A free name below `parent`, 0 if there is none; taken out. */
uint32_t names_take(uint32_t parent);
bool names_has_free(uint32_t parent);
void names_give(uint32_t parent, uint32_t frame);

#endif
