/* Process-wide frames and contexts. See frames.h. */
#include "record/frames.h"

#include <pthread.h>
#include <string.h>

#include <libproton/proton.h>

#include "base/map.h"
#include "base/region.h"
#include "base/strings.h"
#include "record/fork.h"
#include "record/limits.h"

#define STRINGS_RESERVE (8ull << 30)
#define FRAMES_RESERVE (4ull << 30)
#define CONTEXTS_RESERVE (8ull << 30)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards every addition below */
static _Atomic bool ready;
static struct strings strings;
static struct region frame_space; /* struct row_frame; row 0 is the root's */
static struct region
	twin_space; /* u32 per frame: the kernel frame of the same name, 0 = not known */
static struct region context_space; /* struct node */
static uint32_t frame_count;
static _Atomic uint32_t context_count; /* changed under the lock */
static uint32_t text_count;            /* values of metrics */
static uint64_t text_bytes;
static struct map frame_map;   /* hash of the content -> frame */
static struct map context_map; /* parent << 32 | frame -> context */
static struct map append_map;  /* context << 32 | path -> context, for frames_append() */

/* A context; nothing but the number of its children changes. */
struct node {
	struct context context;
	_Atomic uint32_t children;
};

#define CONTEXT_ANY UINT32_MAX

static struct node *node_at(uint32_t context)
{
	return (struct node *)context_space.base + context;
}

/* No further context may be made below it. Without the lock it may just have become so. */
static bool is_full(uint32_t context)
{
	return atomic_load_explicit(&node_at(context)->children, memory_order_relaxed) >=
		       limits_get()->children ||
	       atomic_load_explicit(&context_count, memory_order_relaxed) >= limits_get()->contexts;
}

static uint32_t put_frame(uint64_t key, enum frame_kind kind, uint32_t name, uint32_t file,
			  uint32_t line);
static uint64_t key_of(enum frame_kind kind, const char *name, size_t length);

/* The frames that have fixed numbers. */
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

	pthread_mutex_lock(&lock);
	if (!ready) {
		limits_read();
		status = strings_init(&strings, STRINGS_RESERVE, err);
		if (status == PROTON_OK)
			status = region_reserve(&frame_space, FRAMES_RESERVE, 1 << 20, 1, err);
		if (status == PROTON_OK)
			status = region_reserve(&twin_space, FRAMES_RESERVE / 4, 1 << 20, 1, err);
		if (status == PROTON_OK)
			status = region_reserve(&context_space, CONTEXTS_RESERVE, 1 << 20, 1, err);
		frame_count = 1;
		context_count = 1;
		if (status == PROTON_OK && !add_others())
			status = err_set(err, PROTON_E_NOMEM, "out of memory");
		if (status == PROTON_OK) {
			/* release: pairs with frames_are_ready's acquire */
			atomic_store_explicit(&ready, true, memory_order_release);
		} else {
			strings_fini(&strings);
			region_release(&frame_space);
			region_release(&twin_space);
			region_release(&context_space);
		}
	}
	pthread_mutex_unlock(&lock);
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

	pthread_mutex_lock(&lock);
	id = strings_add(&strings, text, length);
	pthread_mutex_unlock(&lock);
	return id;
}

uint32_t frames_value_text(const char *text, size_t length)
{
	uint32_t id;
	bool is_folded = false;

	pthread_mutex_lock(&lock);
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
	pthread_mutex_unlock(&lock);
	if (is_folded)
		limits_fold();
	return id;
}

/* What a frame is made of, before it has an id. */
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

/*
 * The frame of this content, or 0 with *key_out the first free key of its probe sequence: two
 * contents of one 64-bit hash (never seen, but allowed) take neighbouring keys.
 */
static uint32_t find_frame(const struct content *content, uint64_t *key_out)
{
	uint64_t key = key_of(content->kind, content->name, content->name_length) ^
		       (content->line ? hash_u64(content->line) : 0);
	uint32_t frame;

	if (content->file_length)
		key = hash_u64(key) ^ hash_bytes(content->file, content->file_length);
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

/* A new row; FRAME_NONE when there is no room. The lock is held. */
static uint32_t put_frame(uint64_t key, enum frame_kind kind, uint32_t name, uint32_t file,
			  uint32_t line)
{
	if ((uint64_t)(frame_count + 1) * sizeof(struct row_frame) > frame_space.bytes ||
	    (uint64_t)(frame_count + 1) * sizeof(uint32_t) > twin_space.bytes)
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

/* The frame of new content. The lock is held. */
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

/* Found, or made unless `parent` has too many children. */
static uint32_t add_frame(struct content *content, uint32_t parent)
{
	uint64_t key;
	uint32_t frame;

	if (!frames_are_ready())
		return FRAME_NONE;
	if (content->name_length > STRING_MAX_BYTES)
		content->name_length = STRING_MAX_BYTES;
	if (content->file_length > STRING_MAX_BYTES)
		content->file_length = STRING_MAX_BYTES;
	frame = find_frame(content, &key);
	if (frame)
		return frame;
	if (parent != CONTEXT_ANY && is_full(parent)) {
		limits_fold();
		return other_of(content->kind);
	}
	pthread_mutex_lock(&lock);
	frame = find_frame(content, &key); /* another thread may have been faster */
	if (!frame) {
		frame = make_frame(key, content);
		if (is_other(frame))
			limits_fold();
	}
	pthread_mutex_unlock(&lock);
	return frame;
}

uint32_t frames_add_below(uint32_t parent, const char *name, size_t length)
{
	struct content content = {
		.kind = FRAME_NAME, .name = name, .name_length = length, .file = ""};

	/* Frames may be made before the first session: a decorator's name, at import. */
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
	/* Frames may be made before the first session: a decorator's name, at import. */
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

/* A new context, `parent` when there is no room. The lock is held. */
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

/* Below "(other)" is no further level of it. */
static bool is_repeated_other(uint32_t parent, uint32_t frame)
{
	return frame == FRAME_OTHER && node_at(parent)->context.frame == FRAME_OTHER;
}

uint32_t frames_child(uint32_t parent, uint32_t frame)
{
	uint64_t key = (uint64_t)parent << 32 | frame;
	bool is_folded = false;
	uint32_t child;

	if (frame == FRAME_NONE || frame == 0 || is_repeated_other(parent, frame))
		return parent;
	child = map_find(&context_map, key);
	if (child)
		return child;
	pthread_mutex_lock(&lock);
	child = map_find(&context_map, key);
	if (!child && !is_other(frame) && is_full(parent)) {
		is_folded = true;
		frame = other_of(frames_get(frame)->kind);
		child = is_repeated_other(parent, frame)
				? parent
				: map_find(&context_map, (uint64_t)parent << 32 | frame);
	}
	if (!child)
		child = put_context(parent, frame);
	pthread_mutex_unlock(&lock);
	if (is_folded)
		limits_fold();
	return child;
}

static uint64_t append_key(uint32_t context, uint32_t path)
{
	return (uint64_t)context << 32 | path;
}

/* What `path` becomes below `context`, 0 if that is not known yet. */
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
	/* Each turn appends the outermost level that is missing; a pair of paths does it once. */
	while (!(found = find_appended(context, path))) {
		uint32_t missing = path;
		uint32_t child;

		while (!find_appended(context, frames_context(missing).parent))
			missing = frames_context(missing).parent;
		child = frames_child(find_appended(context, frames_context(missing).parent),
				     frames_context(missing).frame);
		pthread_mutex_lock(&lock);
		if (!map_find(&append_map, append_key(context, missing)) &&
		    !map_insert(&append_map, append_key(context, missing), child)) {
			pthread_mutex_unlock(&lock);
			return context; /* out of memory: the levels above are right */
		}
		pthread_mutex_unlock(&lock);
	}
	return found;
}

uint32_t proton_context_child(uint32_t parent, uint32_t frame)
{
	if (!frames_are_ready())
		return PROTON_CONTEXT_ROOT;
	return frames_child(parent, frame);
}

void frames_fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

void frames_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

void frames_fork_child(void)
{
	pthread_mutex_init(&lock, NULL);
}
