/* Process-wide frames and contexts. See frames.h. */
#include "record/frames.h"

#include <pthread.h>
#include <string.h>

#include <libproton/proton.h>

#include "base/map.h"
#include "base/region.h"
#include "base/strings.h"
#include "record/fork.h"

#define STRINGS_RESERVE (8ull << 30)
#define FRAMES_RESERVE (4ull << 30)
#define CONTEXTS_RESERVE (8ull << 30)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards every addition below */
static _Atomic bool ready;
static struct strings strings;
static struct region frame_space; /* struct row_frame; row 0 is the root's */
static struct region
	twin_space; /* u32 per frame: the kernel frame of the same name, 0 = not known */
static struct region context_space;
static uint32_t frame_count;
static uint32_t context_count;
static struct map frame_map;   /* hash of the content -> frame */
static struct map context_map; /* parent << 32 | frame -> context */
static struct map append_map;  /* context << 32 | path -> context, for frames_append() */

int frames_init(struct proton_error *err)
{
	int status = PROTON_OK;

	pthread_mutex_lock(&lock);
	if (!ready) {
		status = strings_init(&strings, STRINGS_RESERVE, err);
		if (status == PROTON_OK)
			status = region_reserve(&frame_space, FRAMES_RESERVE, 1 << 20, 1, err);
		if (status == PROTON_OK)
			status = region_reserve(&twin_space, FRAMES_RESERVE / 4, 1 << 20, 1, err);
		if (status == PROTON_OK)
			status = region_reserve(&context_space, CONTEXTS_RESERVE, 1 << 20, 1, err);
		if (status == PROTON_OK) {
			frame_count = 1;
			context_count = 1;
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

/*
 * The frame of this content, or 0 with *key_out the first free key of its probe sequence: two
 * contents of one 64-bit hash (never seen, but allowed) take neighbouring keys.
 */
static uint32_t find_frame(const struct content *content, uint64_t *key_out)
{
	uint64_t key = hash_bytes(content->name, content->name_length) ^
		       hash_u64((uint64_t)content->line << 8 | content->kind);
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

static uint32_t add_frame(struct content *content)
{
	uint64_t key;
	uint32_t frame;
	uint32_t name;
	uint32_t file;

	if (!frames_are_ready())
		return FRAME_NONE;
	if (content->name_length > STRING_MAX_BYTES)
		content->name_length = STRING_MAX_BYTES;
	if (content->file_length > STRING_MAX_BYTES)
		content->file_length = STRING_MAX_BYTES;
	frame = find_frame(content, &key);
	if (frame)
		return frame;
	pthread_mutex_lock(&lock);
	frame = find_frame(content, &key); /* somebody may have been faster */
	if (frame)
		goto out;
	frame = FRAME_NONE;
	if ((uint64_t)(frame_count + 1) * sizeof(struct row_frame) > frame_space.bytes ||
	    (uint64_t)(frame_count + 1) * sizeof(uint32_t) > twin_space.bytes)
		goto out;
	name = strings_add(&strings, content->name, content->name_length);
	file = strings_add(&strings, content->file, content->file_length);
	if (name == STRING_NONE || file == STRING_NONE)
		goto out;
	((struct row_frame *)frame_space.base)[frame_count] = (struct row_frame){
		.kind = (uint32_t)content->kind,
		.name = name,
		.file = file,
		.line = content->line,
	};
	if (map_insert(&frame_map, key, frame_count))
		frame = frame_count++;
out:
	pthread_mutex_unlock(&lock);
	return frame;
}

uint32_t frames_add(enum frame_kind kind, const char *name, size_t length)
{
	struct content content = {.kind = kind, .name = name, .name_length = length, .file = ""};

	return add_frame(&content);
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
	return add_frame(&content);
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
	return ((const struct context *)context_space.base)[context];
}

uint32_t frames_child(uint32_t parent, uint32_t frame)
{
	uint64_t key = (uint64_t)parent << 32 | frame;
	uint32_t child;

	if (frame == FRAME_NONE || frame == 0)
		return parent;
	child = map_find(&context_map, key);
	if (child)
		return child;
	pthread_mutex_lock(&lock);
	child = map_find(&context_map, key);
	if (!child) {
		child = parent;
		if ((uint64_t)(context_count + 1) * sizeof(struct context) <= context_space.bytes &&
		    context_count < UINT32_MAX - 1) {
			((struct context *)context_space.base)[context_count] =
				(struct context){.parent = parent, .frame = frame};
			if (map_insert(&context_map, key, context_count))
				child = context_count++;
		}
	}
	pthread_mutex_unlock(&lock);
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
