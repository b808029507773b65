/* Scopes entered by name: a new name may replace one that only cleared phases have used. */
#include "base/mutex.h"
#include "record/names/frames.h"

#include "record/names/frame_tables.h"

pthread_mutex_t scope_names_lock = PTHREAD_MUTEX_INITIALIZER;

/* Makes a frame for new content below `parent`, unless there are too many. The lock is held. */
static uint32_t make_name(uint32_t parent, uint64_t key, const struct frame_content *content)
{
	uint32_t frame = context_tree_is_full(parent) ? FRAME_OTHER : frames_make(key, content);

	if (frame == FRAME_OTHER)
		name_limits_count(LIMITS_FOLDED);
	return frame;
}

/* The context of a name, if need be a new one; SCOPE_NAMES_NONE: it has to replace one. Locked. */
static uint32_t enter_known(uint32_t parent, const struct frame_content *content, uint32_t *frame)
{
	uint64_t key;
	uint32_t child;
	bool is_new;

	*frame = frames_find(content, &key);
	is_new = !*frame;
	if (is_new && reused_names_has_free(parent))
		return SCOPE_NAMES_NONE;
	if (is_new)
		*frame = make_name(parent, key, content);
	else if (reused_names_state(*frame) == NAME_LEAVING)
		reused_names_set(*frame, NAME_LIVE); /* it is used again in time */
	if (*frame == FRAME_NONE)
		name_limits_lose();
	if (*frame == FRAME_NONE || context_tree_repeats_other(parent, *frame))
		return parent;
	child = context_tree_add(parent, *frame);
	if (context_tree_is_lost(parent, child))
		*frame = FRAME_NONE;
	else if (context_tree_get(child).frame != *frame)
		*frame = FRAME_OTHER;
	else if (is_new && *frame != FRAME_OTHER)
		reused_names_make(*frame, child);
	else if (reused_names_state(*frame) == NAME_LIVE && reused_names_of(*frame)->owner != child)
		reused_names_set(*frame, NAME_FIXED); /* with two parents it cannot be replaced */
	return child;
}

/* Makes space for the text of a frame that is replaced. The lock is held. */
static bool make_space(uint32_t frame, size_t bytes)
{
	struct row_frame *row = (struct row_frame *)frame_tables.frames.base + frame;
	size_t capacity = 64;
	uint32_t id;

	if (reused_names_of(frame)->capacity >= bytes)
		return true;
	while (capacity < bytes)
		capacity *= 2;
	if (frame_tables.strings.used + capacity > name_limits.name_bytes)
		return false;
	id = strings_reserve(&frame_tables.strings, capacity);
	if (id == STRING_NONE)
		return false;
	row->name = id;
	reused_names_of(frame)->capacity = (uint32_t)capacity;
	return true;
}

/* Adds a replaced frame to the map. The lock is held. */
static bool list_renewed(uint32_t frame, const struct frame_content *content)
{
	uint64_t key;

	if (frames_find(content, &key) || !map_insert(&frame_tables.frame_map, key, frame))
		return false;
	atomic_store_explicit((_Atomic uint32_t *)frame_tables.twins.base + frame, 0,
			      memory_order_relaxed);
	reused_names_renew(frame);
	return true;
}

/* A free frame below `parent` with space for the text, 0 if there is none. */
static uint32_t take_name(uint32_t parent, size_t bytes, bool *has_moved)
{
	MUTEX_HOLD(&frames_lock);
	uint32_t frame = reused_names_take(parent);

	*has_moved = frame && reused_names_of(frame)->capacity < bytes;
	if (frame && !make_space(frame, bytes)) {
		reused_names_give(parent, frame);
		frame = 0;
	}
	return frame;
}

/* The context below `parent` that this name takes over; SCOPE_NAMES_NONE: none. */
static uint32_t enter_renewed(uint32_t parent, const struct frame_content *content,
			      scope_names_rename_fn rename, uint32_t *frame_out)
{
	uint32_t child = SCOPE_NAMES_NONE;
	uint32_t frame;
	bool has_moved;

	MUTEX_HOLD(&scope_names_lock);
	frame = take_name(parent, string_entry_bytes(content->name_length), &has_moved);
	if (frame) {
		/* No other thread finds the frame: its text belongs to this thread. */
		string_write((char *)frame_tables.strings.pool.base +
				     (uint64_t)frames_get(frame)->name * 8,
			     reused_names_of(frame)->capacity, content->name, content->name_length);
		/* A frame that does not fit in some file is not reused again. */
		if (rename(frame, has_moved)) {
			MUTEX_HOLD(&frames_lock);
			if (list_renewed(frame, content)) {
				child = reused_names_of(frame)->owner;
				*frame_out = frame;
			} else {
				reused_names_give(parent, frame);
			}
		}
	}
	return child;
}

uint32_t scope_names_enter(uint32_t parent, const char *name, size_t length,
			   scope_names_rename_fn rename, uint32_t *frame)
{
	struct frame_content content;
	uint32_t child = *frame ? context_tree_find(parent, *frame) : 0;

	if (child && reused_names_state(*frame) <= NAME_LIVE)
		return child;
	if (!name)
		return SCOPE_NAMES_NONE;
	content = frames_content(FRAME_NAME, name, length);
	/* Retry if another thread made the name in between. */
	for (int attempt = 0; attempt < 3; attempt++) {
		if (!*frame && context_tree_is_full(parent) && !reused_names_has_free(parent))
			break;
		pthread_mutex_lock(&frames_lock);
		child = enter_known(parent, &content, frame);
		pthread_mutex_unlock(&frames_lock);
		if (child == SCOPE_NAMES_NONE)
			child = enter_renewed(parent, &content, rename, frame);
		if (child != SCOPE_NAMES_NONE)
			return child;
	}
	name_limits_count(LIMITS_FOLDED);
	*frame = FRAME_OTHER;
	return context_tree_child(parent, FRAME_OTHER);
}

/* ------------------------------------------------------------------ reclaiming names */

bool scope_names_mark(uint32_t limit)
{
	bool has_any = false;

	MUTEX_HOLD(&frames_lock);
	for (uint32_t frame = 1; frame < frame_tables.frame_count; frame++)
		if (reused_names_state(frame) == NAME_LIVE &&
		    atomic_load_explicit(&reused_names_of(frame)->last, memory_order_relaxed) <
			    limit) {
			reused_names_set(frame, NAME_LEAVING);
			has_any = true;
		}
	return has_any;
}

/* Removes the frame from the map. The lock is held. */
static void unlist_name(uint32_t frame)
{
	const struct row_frame *row = frames_get(frame);
	struct frame_content content = {.kind = FRAME_NAME, .file = ""};
	uint32_t length;
	uint64_t key;

	content.name = frames_text(row->name, &length);
	content.name_length = length;
	if (frames_find(&content, &key) == frame)
		map_remove(&frame_tables.frame_map, key);
}

uint32_t scope_names_unlist(uint32_t limit, uint32_t first, bool keep_all)
{
	MUTEX_HOLD(&frames_lock);
	for (uint32_t frame = 1; frame < frame_tables.frame_count; frame++) {
		if (reused_names_state(frame) != NAME_LEAVING)
			continue;
		if (keep_all || atomic_load_explicit(&reused_names_of(frame)->last,
						     memory_order_relaxed) >= limit) {
			reused_names_set(frame, NAME_LIVE);
			continue;
		}
		unlist_name(frame);
		reused_names_set(frame, NAME_FREE);
		reused_names_of(frame)->next = first;
		first = frame;
	}
	return first;
}

void scope_names_give(uint32_t first)
{
	MUTEX_HOLD(&frames_lock);
	while (first) {
		uint32_t next = reused_names_of(first)->next;
		uint32_t owner = reused_names_of(first)->owner;

		reused_names_give(context_tree_get(owner).parent, first);
		first = next;
	}
}
