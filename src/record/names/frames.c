/* Process-wide frames and calling contexts. */
#include "record/names/frames.h"

#include <string.h>

#include <libproton/proton.h>

#include "base/map.h"
#include "base/region.h"
#include "base/strings.h"
#include "record/names/name_limits.h"
#include "record/names/reused_names.h"

#define STRINGS_RESERVE (8ull << 30)
#define FRAMES_RESERVE (4ull << 30)
#define CONTEXTS_RESERVE (8ull << 30)

pthread_mutex_t frames_reuse_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t frames_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool ready;
static struct strings strings;
static struct region frame_space; /* struct row_frame; row 0 is the root's */
static struct region twin_space; /* u32 per frame: the kernel frame of the same name, 0 = unknown */
static struct region context_space; /* struct node */
static uint32_t frame_count;
static _Atomic uint32_t context_count; /* changed under the lock */
static uint32_t text_count;            /* metric value texts */
static uint64_t text_bytes;
static struct map frame_map;   /* hash of the content -> frame */
static struct map context_map; /* parent << 32 | frame -> context */
static struct map append_map;  /* context << 32 | path -> context, for frames_append() */

/* A context; only the number of its children changes. */
struct node {
	struct context context;
	_Atomic uint32_t children;
};

#define CONTEXT_ANY UINT32_MAX
#define CONTEXT_NONE FRAMES_CONTEXT_NONE

static struct node *node_at(uint32_t context)
{
	return (struct node *)context_space.base + context;
}

/* No further context may be made below it. Without the lock, the answer may be outdated. */
static bool is_full(uint32_t context)
{
	return atomic_load_explicit(&node_at(context)->children, memory_order_relaxed) >=
		       limits_get()->children ||
	       atomic_load_explicit(&context_count, memory_order_relaxed) >= limits_get()->contexts;
}

static uint32_t put_frame(uint64_t key, enum frame_kind kind, uint32_t name, uint32_t file,
			  uint32_t line);
static uint64_t key_of(enum frame_kind kind, const char *name, size_t length);

/* Adds the frames with fixed ids. */
static bool add_others(void)
{
	size_t length = strlen(LIMITS_OTHER);
	uint32_t text = strings_add(&strings, LIMITS_OTHER, length);

	return text != STRING_NONE &&
	       put_frame(key_of(FRAME_NAME, LIMITS_OTHER, length), FRAME_NAME, text, 0, 0) ==
		       FRAME_OTHER &&
	       put_frame(key_of(FRAME_KERNEL, LIMITS_OTHER, length), FRAME_KERNEL, text, 0, 0) ==
		       FRAME_OTHER_KERNEL;
}

int frames_init(struct proton_error *err)
{
	int status = PROTON_OK;

	pthread_mutex_lock(&frames_lock);
	if (!ready) {
		limits_read();
		status = strings_init(&strings, STRINGS_RESERVE, err);
		if (status == PROTON_OK)
			status = region_reserve(&frame_space, FRAMES_RESERVE, 1 << 20, 1, err);
		if (status == PROTON_OK)
			status = region_reserve(&twin_space, FRAMES_RESERVE / 4, 1 << 20, 1, err);
		if (status == PROTON_OK)
			status = region_reserve(&context_space, CONTEXTS_RESERVE, 1 << 20, 1, err);
		if (status == PROTON_OK)
			status = names_init(err);
		frame_count = 1;
		context_count = 1;
		if (status == PROTON_OK && !add_others())
			status = err_nomem(err);
		if (status == PROTON_OK) {
			/* release: pairs with frames_are_ready's acquire */
			atomic_store_explicit(&ready, true, memory_order_release);
		} else {
			strings_fini(&strings);
			region_release(&frame_space);
			region_release(&twin_space);
			region_release(&context_space);
			region_release(&names_space);
		}
	}
	pthread_mutex_unlock(&frames_lock);
	return status;
}

bool frames_are_ready(void)
{
	return atomic_load_explicit(&ready, memory_order_acquire);
}

const struct row_frame *frames_get(uint32_t frame)
{
	return (const struct row_frame *)frame_space.base + frame;
}

const char *frames_text(uint32_t string, uint32_t *length_out)
{
	*length_out = string_length(&strings, string);
	return string_text(&strings, string);
}

uint32_t frames_string(const char *text, size_t length)
{
	uint32_t id;

	pthread_mutex_lock(&frames_lock);
	id = strings_add(&strings, text, length);
	pthread_mutex_unlock(&frames_lock);
	return id;
}

uint32_t frames_value_text(const char *text, size_t length)
{
	uint32_t id;
	bool is_folded = false;

	pthread_mutex_lock(&frames_lock);
	id = strings_find(&strings, text, length);
	if (id == STRING_NONE) {
		is_folded = text_count >= LIMITS_TEXTS || text_bytes + length > LIMITS_TEXT_BYTES;
		if (is_folded)
			id = frames_get(FRAME_OTHER)->name;
		else
			id = strings_add(&strings, text, length);
		text_count += !is_folded;
		text_bytes += is_folded ? 0 : length;
	}
	pthread_mutex_unlock(&frames_lock);
	if (is_folded)
		limits_fold();
	return id;
}

/* The content of a frame before it has an id. */
struct content {
	enum frame_kind kind;
	uint32_t line;
	const char *name;
	const char *file;
	size_t name_length;
	size_t file_length;
};

static bool text_is(uint32_t string, const char *text, size_t length)
{
	return string_length(&strings, string) == length &&
	       memcmp(string_text(&strings, string), text, length) == 0;
}

static bool content_is(const struct content *content, uint32_t frame)
{
	const struct row_frame *row = frames_get(frame);

	return row->kind == (uint32_t)content->kind && row->line == content->line &&
	       text_is(row->name, content->name, content->name_length) &&
	       text_is(row->file, content->file, content->file_length);
}

static uint64_t key_of(enum frame_kind kind, const char *name, size_t length)
{
	uint64_t key = hash_bytes(name, length) ^ hash_u64(kind);

	return key ? key : 1;
}

static uint64_t first_key(const struct content *content)
{
	uint64_t key = key_of(content->kind, content->name, content->name_length) ^
		       (content->line ? hash_u64(content->line) : 0);

	if (content->file_length)
		key = hash_u64(key) ^ hash_bytes(content->file, content->file_length);
	return key ? key : 1;
}

/*
 * The frame with this content, or 0 with *key_out the first free key of its probe sequence: two
 * contents with equal 64-bit hashes (never seen, but allowed) use neighboring keys. Call it with
 * the lock, or in a section.
 */
static uint32_t find_frame(const struct content *content, uint64_t *key_out)
{
	uint64_t key = first_key(content);
	uint32_t frame;

	for (;; key++) {
		if (!key)
			key = 1;
		frame = map_find(&frame_map, key);
		if (!frame || content_is(content, frame))
			break;
	}
	*key_out = key;
	return frame;
}

/*
 * The same without the lock, for fixed frames only, because only their texts may be read. 0 if it
 * cannot be found without the lock.
 */
static uint32_t find_fixed(const struct content *content)
{
	uint64_t key = first_key(content);
	uint32_t frame = map_find(&frame_map, key);

	return frame && name_state(frame) == NAME_FIXED && content_is(content, frame) ? frame : 0;
}

/* Adds a row; FRAME_NONE if there is no space. The lock is held. */
static uint32_t put_frame(uint64_t key, enum frame_kind kind, uint32_t name, uint32_t file,
			  uint32_t line)
{
	if ((uint64_t)(frame_count + 1) * sizeof(struct row_frame) > frame_space.bytes ||
	    (uint64_t)(frame_count + 1) * sizeof(uint32_t) > twin_space.bytes ||
	    (uint64_t)(frame_count + 1) * sizeof(struct name) > names_space.bytes)
		return FRAME_NONE;
	((struct row_frame *)frame_space.base)[frame_count] = (struct row_frame){
		.kind = (uint32_t)kind, .name = name, .file = file, .line = line};
	return map_insert(&frame_map, key, frame_count) ? frame_count++ : FRAME_NONE;
}

static uint32_t other_of(enum frame_kind kind)
{
	return kind == FRAME_KERNEL ? FRAME_OTHER_KERNEL : FRAME_OTHER;
}

static bool is_other(uint32_t frame)
{
	return frame == FRAME_OTHER || frame == FRAME_OTHER_KERNEL;
}

/* Makes a frame for new content. The lock is held. */
static uint32_t make_frame(uint64_t key, const struct content *content)
{
	uint32_t name;
	uint32_t file;

	if (frame_count >= limits_get()->names || strings.used >= limits_get()->name_bytes)
		return other_of(content->kind);
	name = strings_add(&strings, content->name, content->name_length);
	file = strings_add(&strings, content->file, content->file_length);
	if (name == STRING_NONE || file == STRING_NONE)
		return FRAME_NONE;
	return put_frame(key, content->kind, name, file, content->line);
}

static void cut(struct content *content)
{
	if (content->name_length > STRING_MAX_BYTES)
		content->name_length = STRING_MAX_BYTES;
	if (content->file_length > STRING_MAX_BYTES)
		content->file_length = STRING_MAX_BYTES;
}

/*
 * Finds a frame, or makes one unless `parent` has too many children. It lives as long as the
 * process.
 */
static uint32_t add_frame(struct content *content, uint32_t parent)
{
	uint64_t key;
	uint32_t frame;

	if (!frames_are_ready())
		return FRAME_NONE;
	cut(content);
	frame = find_fixed(content);
	if (frame)
		return frame;
	pthread_mutex_lock(&frames_lock);
	frame = find_frame(content, &key);
	if (frame)
		names_set(frame, NAME_FIXED);
	else if (parent != CONTEXT_ANY && is_full(parent))
		frame = other_of(content->kind);
	else
		frame = make_frame(key, content);
	pthread_mutex_unlock(&frames_lock);
	if (is_other(frame) && !content_is(content, frame))
		limits_fold();
	return frame;
}

uint32_t frames_add_below(uint32_t parent, const char *name, size_t length)
{
	struct content content = {
		.kind = FRAME_NAME, .name = name, .name_length = length, .file = ""};

	/* Frames may be made before the first session: for a decorator's name, at import. */
	if (!frames_are_ready() && frames_init(NULL) != PROTON_OK)
		return FRAME_NONE;
	return add_frame(&content, parent);
}

uint32_t frames_add(enum frame_kind kind, const char *name, size_t length)
{
	struct content content = {.kind = kind, .name = name, .name_length = length, .file = ""};

	return add_frame(&content, CONTEXT_ANY);
}

uint32_t proton_frame(const char *name, size_t length)
{
	/* Frames may be made before the first session: for a decorator's name, at import. */
	if (!frames_are_ready() && frames_init(NULL) != PROTON_OK)
		return FRAME_NONE;
	return frames_add(FRAME_NAME, name, length);
}

uint32_t proton_frame_source(const char *file, size_t file_length, const char *function,
			     size_t function_length, uint32_t line)
{
	struct content content = {
		.kind = FRAME_SOURCE,
		.line = line,
		.name = function,
		.name_length = function_length,
		.file = file,
		.file_length = file_length,
	};

	if (!frames_are_ready() && frames_init(NULL) != PROTON_OK)
		return FRAME_NONE;
	return add_frame(&content, CONTEXT_ANY);
}

uint32_t frames_as_kernel(uint32_t frame)
{
	_Atomic uint32_t *twin;
	uint32_t kernel;
	uint32_t length;
	const char *name;

	if (frame == FRAME_NONE || frames_get(frame)->kind == FRAME_KERNEL)
		return frame;
	twin = (_Atomic uint32_t *)twin_space.base + frame;
	kernel = atomic_load_explicit(twin, memory_order_acquire);
	if (kernel)
		return kernel;
	name = frames_text(frames_get(frame)->name, &length);
	kernel = frames_add(FRAME_KERNEL, name, length);
	if (kernel != FRAME_NONE)
		atomic_store_explicit(twin, kernel, memory_order_release);
	return kernel;
}

struct context frames_context(uint32_t context)
{
	return node_at(context)->context;
}

/* Adds a context; returns `parent` if there is no space. The lock is held. */
static uint32_t put_context(uint32_t parent, uint32_t frame)
{
	if ((uint64_t)(context_count + 1) * sizeof(struct node) > context_space.bytes ||
	    context_count >= UINT32_MAX - 1)
		return parent;
	node_at(context_count)->context = (struct context){.parent = parent, .frame = frame};
	if (!map_insert(&context_map, (uint64_t)parent << 32 | frame, context_count))
		return parent;
	atomic_fetch_add_explicit(&node_at(parent)->children, 1, memory_order_relaxed);
	return context_count++;
}

/* There is no second level of "(other)" below "(other)". */
static bool is_repeated_other(uint32_t parent, uint32_t frame)
{
	return frame == FRAME_OTHER && node_at(parent)->context.frame == FRAME_OTHER;
}

static uint32_t find_context(uint32_t parent, uint32_t frame)
{
	return map_find(&context_map, (uint64_t)parent << 32 | frame);
}

/* Finds or makes a context; above the limit, that of "(other)". The lock is held. */
static uint32_t add_context(uint32_t parent, uint32_t frame)
{
	uint32_t child = find_context(parent, frame);

	if (!child && !is_other(frame) && is_full(parent)) {
		limits_fold();
		frame = other_of(frames_get(frame)->kind);
		child = is_repeated_other(parent, frame) ? parent : find_context(parent, frame);
	}
	return child ? child : put_context(parent, frame);
}

uint32_t frames_child(uint32_t parent, uint32_t frame)
{
	uint32_t child;

	if (frame == FRAME_NONE || frame == 0 || is_repeated_other(parent, frame))
		return parent;
	child = find_context(parent, frame);
	if (child && name_state(frame) == NAME_FIXED)
		return child;
	pthread_mutex_lock(&frames_lock);
	switch (name_state(frame)) {
	case NAME_FIXED:
		break;
	case NAME_LIVE:
	case NAME_LEAVING:
		names_set(frame, NAME_FIXED);
		break;
	case NAME_FREE: /* left over from a cleared phase */
		pthread_mutex_unlock(&frames_lock);
		return parent;
	}
	child = add_context(parent, frame);
	pthread_mutex_unlock(&frames_lock);
	return child;
}

/* ------------------------------------------------------------------ scopes entered by name */

static struct content content_of(const char *name, size_t length)
{
	struct content content = {
		.kind = FRAME_NAME, .name = name, .name_length = length, .file = ""};

	cut(&content);
	return content;
}

void frames_fix_path(uint32_t context)
{
	for (; context != PROTON_CONTEXT_ROOT; context = node_at(context)->context.parent) {
		uint32_t frame = node_at(context)->context.frame;

		if (name_state(frame) == NAME_FIXED)
			continue;
		pthread_mutex_lock(&frames_lock);
		if (name_state(frame) != NAME_FREE)
			names_set(frame, NAME_FIXED);
		pthread_mutex_unlock(&frames_lock);
	}
}

uint32_t frames_find_name(const char *name, size_t length)
{
	struct content content = content_of(name, length);
	uint64_t key;

	return find_frame(&content, &key);
}

/* Makes a frame for new content below `parent`, unless there are too many. The lock is held. */
static uint32_t make_name(uint32_t parent, uint64_t key, const struct content *content)
{
	uint32_t frame = is_full(parent) ? FRAME_OTHER : make_frame(key, content);

	if (frame == FRAME_OTHER)
		limits_fold();
	return frame;
}

/*
 * The context of a known name, or of a new one within the limits; CONTEXT_NONE if it has to replace
 * another name. The lock is held.
 */
static uint32_t enter_known(uint32_t parent, const struct content *content, uint32_t *frame)
{
	uint64_t key;
	uint32_t child;
	bool is_new;

	*frame = find_frame(content, &key);
	is_new = !*frame;
	if (is_new && names_has_free(parent))
		return CONTEXT_NONE;
	if (is_new)
		*frame = make_name(parent, key, content);
	else if (name_state(*frame) == NAME_LEAVING)
		names_set(*frame, NAME_LIVE); /* it is used again in time */
	if (*frame == FRAME_NONE || is_repeated_other(parent, *frame))
		return parent;
	child = add_context(parent, *frame);
	if (child == parent || node_at(child)->context.frame != *frame)
		*frame = FRAME_OTHER;
	else if (is_new && *frame != FRAME_OTHER)
		names_make(*frame, child);
	else if (name_state(*frame) == NAME_LIVE && name_of(*frame)->owner != child)
		names_set(*frame, NAME_FIXED); /* with two parents it cannot be replaced */
	return child;
}

/* Makes space for the text of a frame that is replaced. The lock is held. */
static bool make_space(uint32_t frame, size_t bytes)
{
	struct row_frame *row = (struct row_frame *)frame_space.base + frame;
	size_t capacity = 64;
	uint32_t id;

	if (name_of(frame)->capacity >= bytes)
		return true;
	while (capacity < bytes)
		capacity *= 2;
	if (strings.used + capacity > limits_get()->name_bytes)
		return false;
	id = strings_reserve(&strings, capacity);
	if (id == STRING_NONE)
		return false;
	row->name = id;
	name_of(frame)->capacity = (uint32_t)capacity;
	return true;
}

/* Adds a replaced frame to the map. The lock is held. */
static bool list_renewed(uint32_t frame, const struct content *content)
{
	uint64_t key;

	if (find_frame(content, &key) || !map_insert(&frame_map, key, frame))
		return false;
	atomic_store_explicit((_Atomic uint32_t *)twin_space.base + frame, 0, memory_order_relaxed);
	names_renew(frame);
	return true;
}

/* A free frame below `parent` with space for the text, 0 if there is none. */
static uint32_t take_name(uint32_t parent, size_t bytes, bool *has_moved)
{
	uint32_t frame;

	pthread_mutex_lock(&frames_lock);
	frame = names_take(parent);
	*has_moved = frame && name_of(frame)->capacity < bytes;
	if (frame && !make_space(frame, bytes)) {
		names_give(parent, frame);
		frame = 0;
	}
	pthread_mutex_unlock(&frames_lock);
	return frame;
}

/*
 * The context below `parent` that this name takes over from another; CONTEXT_NONE if there is none.
 */
static uint32_t enter_renewed(uint32_t parent, const struct content *content,
			      frames_rename_fn rename, uint32_t *frame_out)
{
	uint32_t child = CONTEXT_NONE;
	uint32_t frame;
	bool has_moved;

	pthread_mutex_lock(&frames_reuse_lock);
	frame = take_name(parent, string_entry_bytes(content->name_length), &has_moved);
	if (frame) {
		/* No other thread finds the frame: its text belongs to this thread. */
		string_write((char *)strings.pool.base + (uint64_t)frames_get(frame)->name * 8,
			     name_of(frame)->capacity, content->name, content->name_length);
		/* A frame that does not fit in some file is not reused again. */
		if (rename(frame, has_moved)) {
			pthread_mutex_lock(&frames_lock);
			if (list_renewed(frame, content)) {
				child = name_of(frame)->owner;
				*frame_out = frame;
			} else {
				names_give(parent, frame);
			}
			pthread_mutex_unlock(&frames_lock);
		}
	}
	pthread_mutex_unlock(&frames_reuse_lock);
	return child;
}

uint32_t frames_enter(uint32_t parent, const char *name, size_t length, frames_rename_fn rename,
		      uint32_t *frame)
{
	struct content content;
	uint32_t child = *frame ? find_context(parent, *frame) : 0;

	if (child && name_state(*frame) <= NAME_LIVE)
		return child;
	if (!name)
		return CONTEXT_NONE;
	content = content_of(name, length);
	/* Retry if another thread made the name in between. */
	for (int attempt = 0; attempt < 3; attempt++) {
		if (!*frame && is_full(parent) && !names_has_free(parent))
			break;
		pthread_mutex_lock(&frames_lock);
		child = enter_known(parent, &content, frame);
		pthread_mutex_unlock(&frames_lock);
		if (child == CONTEXT_NONE)
			child = enter_renewed(parent, &content, rename, frame);
		if (child != CONTEXT_NONE)
			return child;
	}
	limits_fold();
	*frame = FRAME_OTHER;
	return frames_child(parent, FRAME_OTHER);
}

/* ------------------------------------------------------------------ reclaiming names */

bool frames_reuse_mark(uint32_t limit)
{
	bool has_any = false;

	pthread_mutex_lock(&frames_lock);
	for (uint32_t frame = 1; frame < frame_count; frame++)
		if (name_state(frame) == NAME_LIVE &&
		    atomic_load_explicit(&name_of(frame)->last, memory_order_relaxed) < limit) {
			names_set(frame, NAME_LEAVING);
			has_any = true;
		}
	pthread_mutex_unlock(&frames_lock);
	return has_any;
}

/* Removes the frame from the map. The lock is held. */
static void unlist(uint32_t frame)
{
	const struct row_frame *row = frames_get(frame);
	struct content content = {.kind = FRAME_NAME, .file = ""};
	uint32_t length;
	uint64_t key;

	content.name = frames_text(row->name, &length);
	content.name_length = length;
	if (find_frame(&content, &key) == frame)
		map_remove(&frame_map, key);
}

uint32_t frames_reuse_unlist(uint32_t limit, uint32_t first, bool keep_all)
{
	pthread_mutex_lock(&frames_lock);
	for (uint32_t frame = 1; frame < frame_count; frame++) {
		if (name_state(frame) != NAME_LEAVING)
			continue;
		if (keep_all ||
		    atomic_load_explicit(&name_of(frame)->last, memory_order_relaxed) >= limit) {
			names_set(frame, NAME_LIVE);
			continue;
		}
		unlist(frame);
		names_set(frame, NAME_FREE);
		name_of(frame)->next = first;
		first = frame;
	}
	pthread_mutex_unlock(&frames_lock);
	return first;
}

void frames_reuse_give(uint32_t first)
{
	pthread_mutex_lock(&frames_lock);
	while (first) {
		uint32_t next = name_of(first)->next;
		uint32_t owner = name_of(first)->owner;

		names_give(node_at(owner)->context.parent, first);
		first = next;
	}
	pthread_mutex_unlock(&frames_lock);
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

uint32_t frames_append(uint32_t context, uint32_t path)
{
	uint32_t found;

	if (context == PROTON_CONTEXT_ROOT || path == PROTON_CONTEXT_ROOT)
		return context == PROTON_CONTEXT_ROOT ? path : context;
	/* Each iteration appends the outermost missing level; once per pair of paths. */
	while (!(found = find_appended(context, path))) {
		uint32_t missing = path;
		uint32_t child;

		while (!find_appended(context, frames_context(missing).parent))
			missing = frames_context(missing).parent;
		child = frames_child(find_appended(context, frames_context(missing).parent),
				     frames_context(missing).frame);
		pthread_mutex_lock(&frames_lock);
		if (!map_find(&append_map, append_key(context, missing)) &&
		    !map_insert(&append_map, append_key(context, missing), child)) {
			pthread_mutex_unlock(&frames_lock);
			return context; /* out of memory: the upper levels are correct */
		}
		pthread_mutex_unlock(&frames_lock);
	}
	return found;
}

uint32_t proton_context_child(uint32_t parent, uint32_t frame)
{
	if (!frames_are_ready())
		return PROTON_CONTEXT_ROOT;
	return frames_child(parent, frame);
}
