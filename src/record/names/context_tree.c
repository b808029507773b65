/* Process-wide tree of calling contexts. */

#include <libproton/proton.h>

#include "base/mutex.h"
#include "record/names/frame_tables.h"

static _Atomic uint32_t context_count = 1; /* changed under the lock; the root is 0 */
static struct map context_map;             /* parent << 32 | frame -> context */
static struct map append_map;              /* context << 32 | path -> context */

/* A context; only the number of its children changes. */
struct node {
	struct context context;
	_Atomic uint32_t children;
};

static struct node *node_at(uint32_t context)
{
	return (struct node *)frame_tables.contexts.base + context;
}

bool context_tree_is_full(uint32_t context)
{
	return atomic_load_explicit(&node_at(context)->children, memory_order_relaxed) >=
		       name_limits.children ||
	       atomic_load_explicit(&context_count, memory_order_relaxed) >= name_limits.contexts;
}

struct context context_tree_get(uint32_t context)
{
	return node_at(context)->context;
}

/* Adds a context; returns `parent` if there is no space, which is counted. The lock is held. */
static uint32_t put_context(uint32_t parent, uint32_t frame)
{
	bool has_space = context_count < UINT32_MAX - 1 &&
			 region_reaches(&frame_tables.contexts,
					(context_count + 1ull) * sizeof(struct node));

	if (has_space)
		node_at(context_count)->context =
			(struct context){.parent = parent, .frame = frame};
	if (!has_space ||
	    !map_insert(&context_map, (uint64_t)parent << 32 | frame, context_count)) {
		name_limits_lose();
		return parent;
	}
	atomic_fetch_add_explicit(&node_at(parent)->children, 1, memory_order_relaxed);
	return context_count++;
}

bool context_tree_repeats_other(uint32_t parent, uint32_t frame)
{
	return frame == FRAME_OTHER && node_at(parent)->context.frame == FRAME_OTHER;
}

uint32_t context_tree_find(uint32_t parent, uint32_t frame)
{
	return map_find(&context_map, (uint64_t)parent << 32 | frame);
}

uint32_t context_tree_add(uint32_t parent, uint32_t frame)
{
	uint32_t child = context_tree_find(parent, frame);

	if (!child && !frames_is_other(frame) && context_tree_is_full(parent)) {
		name_limits_count(LIMITS_FOLDED);
		frame = frames_other_of(frames_get(frame)->kind);
		child = context_tree_repeats_other(parent, frame)
				? parent
				: context_tree_find(parent, frame);
	}
	return child ? child : put_context(parent, frame);
}

/* A context is made after its parent, so its number is higher. */
uint32_t proton_context_common(uint32_t a, uint32_t b)
{
	while (a != b) {
		if (a > b)
			a = node_at(a)->context.parent;
		else
			b = node_at(b)->context.parent;
	}
	return a;
}

const char *proton_context_name(uint32_t *context, uint32_t *length_out)
{
	while (*context != PROTON_CONTEXT_ROOT) {
		struct context at = node_at(*context)->context;

		*context = at.parent;
		if (frames_get(at.frame)->kind == FRAME_NAME)
			return frames_text(frames_get(at.frame)->name, length_out);
	}
	return NULL;
}

uint32_t context_tree_child(uint32_t parent, uint32_t frame)
{
	if (frame == FRAME_NONE || frame == 0 || context_tree_repeats_other(parent, frame))
		return parent;
	uint32_t child = context_tree_find(parent, frame);
	if (child && reused_names_state(frame) == NAME_FIXED)
		return child;
	MUTEX_HOLD(&frames_lock);
	switch (reused_names_state(frame)) {
	case NAME_FIXED:
		break;
	case NAME_LIVE:
	case NAME_LEAVING:
		reused_names_set(frame, NAME_FIXED);
		break;
	case NAME_FREE: /* left over from a cleared phase */
		return parent;
	}
	child = context_tree_add(parent, frame);
	return child;
}

void context_tree_fix_path(uint32_t context)
{
	for (; context != PROTON_CONTEXT_ROOT; context = node_at(context)->context.parent) {
		uint32_t frame = node_at(context)->context.frame;

		if (reused_names_state(frame) == NAME_FIXED)
			continue;
		MUTEX_HOLD(&frames_lock);
		if (reused_names_state(frame) != NAME_FREE)
			reused_names_set(frame, NAME_FIXED);
	}
}

static uint64_t append_key(uint32_t context, uint32_t path)
{
	return (uint64_t)context << 32 | path;
}

/* The context of `path` below `context`, 0 if unknown. */
static uint32_t find_appended(uint32_t context, uint32_t path)
{
	return path == PROTON_CONTEXT_ROOT ? context
					   : map_find(&append_map, append_key(context, path));
}

uint32_t context_tree_append(uint32_t context, uint32_t path)
{
	uint32_t found;

	if (context == PROTON_CONTEXT_ROOT || path == PROTON_CONTEXT_ROOT)
		return context == PROTON_CONTEXT_ROOT ? path : context;
	/* Each iteration appends the outermost missing level; once per pair of paths. */
	while (!(found = find_appended(context, path))) {
		uint32_t missing = path;

		while (!find_appended(context, context_tree_get(missing).parent))
			missing = context_tree_get(missing).parent;
		uint32_t child =
			context_tree_child(find_appended(context, context_tree_get(missing).parent),
					   context_tree_get(missing).frame);
		pthread_mutex_lock(&frames_lock);
		if (!map_find(&append_map, append_key(context, missing)) &&
		    !map_insert(&append_map, append_key(context, missing), child)) {
			pthread_mutex_unlock(&frames_lock);
			name_limits_lose();
			return context; /* the upper levels are correct */
		}
		pthread_mutex_unlock(&frames_lock);
	}
	return found;
}

uint32_t proton_context_child(uint32_t parent, uint32_t frame)
{
	if (!frames_are_ready())
		return PROTON_CONTEXT_ROOT;
	return context_tree_child(parent, frame);
}
