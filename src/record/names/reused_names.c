/* Reusable names: states, ticks of last use, free lists. */

#include <libproton/proton.h>

#include "base/map.h"
#include "record/names/frames.h"

struct region reused_names_space;
static _Atomic uint32_t tick = 1;
static _Atomic uint64_t made;
static struct map free_map; /* parent + 1 -> first of its free names */

uint32_t reused_names_tick(void)
{
	/* The phase is published later, with release: readers note this tick or a later one. */
	return atomic_fetch_add_explicit(&tick, 1, memory_order_relaxed) + 1;
}

static void touch_name(struct name *name, uint32_t now)
{
	uint32_t last = atomic_load_explicit(&name->last, memory_order_relaxed);

	while (last < now &&
	       !atomic_compare_exchange_weak_explicit(&name->last, &last, now, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

void reused_names_note(uint32_t context)
{
	uint32_t now = atomic_load_explicit(&tick, memory_order_relaxed);

	while (context != PROTON_CONTEXT_ROOT) {
		struct context at = context_tree_get(context);
		struct name *name = reused_names_of(at.frame);

		if (atomic_load_explicit(&name->owner, memory_order_relaxed) == context)
			touch_name(name, now);
		context = at.parent;
	}
}

uint64_t reused_names_made(void)
{
	return atomic_load_explicit(&made, memory_order_relaxed);
}

void reused_names_set(uint32_t frame, enum name_state state)
{
	struct name *name = reused_names_of(frame);
	uint32_t version = atomic_load_explicit(&name->word, memory_order_relaxed) & ~3u;

	/* release: pairs with reused_names_word() */
	atomic_store_explicit(&name->word, version | state, memory_order_release);
}

void reused_names_make(uint32_t frame, uint32_t context)
{
	atomic_store_explicit(&reused_names_of(frame)->owner, context, memory_order_relaxed);
	touch_name(reused_names_of(frame), atomic_load_explicit(&tick, memory_order_relaxed));
	reused_names_set(frame, NAME_LIVE);
	atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
}

void reused_names_renew(uint32_t frame)
{
	struct name *name = reused_names_of(frame);
	uint32_t word = atomic_load_explicit(&name->word, memory_order_relaxed);

	touch_name(name, atomic_load_explicit(&tick, memory_order_relaxed));
	atomic_store_explicit(&name->word, ((word & ~3u) + 4) | NAME_LIVE, memory_order_release);
	atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
}

static uint64_t key_of_context(uint32_t parent)
{
	return (uint64_t)parent + 1;
}

bool reused_names_has_free(uint32_t parent)
{
	return map_find(&free_map, key_of_context(parent)) != 0;
}

uint32_t reused_names_take(uint32_t parent)
{
	uint32_t frame = map_find(&free_map, key_of_context(parent));

	if (!frame)
		return 0;
	map_remove(&free_map, key_of_context(parent));
	/* If out of memory, the other names of this parent are not reused. */
	if (reused_names_of(frame)->next)
		map_insert(&free_map, key_of_context(parent), reused_names_of(frame)->next);
	return frame;
}

void reused_names_give(uint32_t parent, uint32_t frame)
{
	reused_names_of(frame)->next = map_find(&free_map, key_of_context(parent));
	map_remove(&free_map, key_of_context(parent));
	map_insert(&free_map, key_of_context(parent), frame);
}
