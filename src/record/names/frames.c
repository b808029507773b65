/* Process-wide frames and their texts. */
#include "record/names/frames.h"

#include <libproton/proton.h>

#include "base/array.h"
#include "base/mutex.h"
#include "record/names/frame_tables.h"

#define STRINGS_RESERVE (8ull << 30)
#define FRAMES_RESERVE (4ull << 30)
#define NAMES_RESERVE (5ull << 30)
#define CONTEXTS_RESERVE (8ull << 30)

pthread_mutex_t frames_lock = PTHREAD_MUTEX_INITIALIZER;
struct frame_tables frame_tables;
static _Atomic bool ready;
static uint32_t text_count; /* metric value texts */
static uint64_t text_bytes;

#define CONTEXT_ANY UINT32_MAX

static bool text_is(uint32_t string, const char *text, size_t length)
{
	return string_length(&frame_tables.strings, string) == length &&
	       memcmp(string_text(&frame_tables.strings, string), text, length) == 0;
}

static bool content_is(const struct frame_content *content, uint32_t frame)
{
	const struct row_frame *row = frames_get(frame);

	return row->kind == (uint32_t)content->kind && row->line == content->line &&
	       text_is(row->name, content->name, content->name_length) &&
	       text_is(row->file, content->file, content->file_length);
}

static uint64_t first_key(const struct frame_content *content)
{
	uint64_t key = hash_bytes(content->name, content->name_length) ^ hash_u64(content->kind) ^
		       (content->line ? hash_u64(content->line) : 0);

	if (content->file_length)
		key = hash_u64(key) ^ hash_bytes(content->file, content->file_length);
	return key ? key : 1;
}

uint32_t frames_find(const struct frame_content *content, uint64_t *key_out)
{
	uint64_t key = first_key(content);
	uint32_t frame;

	for (;; key++) {
		if (!key)
			key = 1;
		frame = map_find(&frame_tables.frame_map, key);
		if (!frame || content_is(content, frame))
			break;
	}
	*key_out = key;
	return frame;
}

/* Without the lock, for fixed frames only: others' texts may change. 0: not found. */
static uint32_t find_fixed(const struct frame_content *content)
{
	uint64_t key = first_key(content);
	uint32_t frame = map_find(&frame_tables.frame_map, key);

	return frame && reused_names_state(frame) == NAME_FIXED && content_is(content, frame)
		       ? frame
		       : 0;
}

uint32_t frames_find_name(const char *name, size_t length)
{
	struct frame_content content = frames_content(FRAME_NAME, name, length);
	uint64_t key;

	return frames_find(&content, &key);
}

uint32_t frames_make(uint64_t key, const struct frame_content *content)
{
	uint32_t frame = frame_tables.frame_count;
	struct row_frame row = {.kind = (uint32_t)content->kind, .line = content->line};

	if (frame > FRAME_OTHER_KERNEL &&
	    (frame >= name_limits.names || frame_tables.strings.used >= name_limits.name_bytes))
		return frames_other_of(content->kind);
	row.name = strings_add(&frame_tables.strings, content->name, content->name_length);
	row.file = strings_add(&frame_tables.strings, content->file, content->file_length);
	if (row.name == STRING_NONE || row.file == STRING_NONE ||
	    !region_reaches(&frame_tables.frames, (frame + 1ull) * sizeof(row)) ||
	    !region_reaches(&frame_tables.twins, (frame + 1ull) * sizeof(uint32_t)) ||
	    !region_reaches(&reused_names_space, (frame + 1ull) * sizeof(struct name)))
		return FRAME_NONE;
	((struct row_frame *)frame_tables.frames.base)[frame] = row;
	return map_insert(&frame_tables.frame_map, key, frame) ? frame_tables.frame_count++
							       : FRAME_NONE;
}

/* ------------------------------------------------------------------ init and texts */

static bool add_others(void)
{
	bool is_ok = true;

	for (uint32_t frame = FRAME_OTHER; frame <= FRAME_OTHER_KERNEL && is_ok; frame++) {
		struct frame_content content =
			frames_content(frame == FRAME_OTHER ? FRAME_NAME : FRAME_KERNEL,
				       LIMITS_OTHER, strlen(LIMITS_OTHER));

		is_ok = frames_make(first_key(&content), &content) == frame;
	}
	return is_ok;
}

int frames_init(struct proton_error *err)
{
	static const struct {
		struct region *region;
		uint64_t bytes;
	} spaces[] = {
		{&frame_tables.frames, FRAMES_RESERVE},
		{&frame_tables.twins, FRAMES_RESERVE / 4},
		{&reused_names_space, NAMES_RESERVE},
		{&frame_tables.contexts, CONTEXTS_RESERVE},
	};
	int status = PROTON_OK;

	MUTEX_HOLD(&frames_lock);
	if (!ready) {
		name_limits_read();
		frame_tables.frame_count = 1;
		status = strings_init(&frame_tables.strings, STRINGS_RESERVE, err);
		for (size_t i = 0; status == PROTON_OK && i < ARRAY_LENGTH(spaces); i++)
			status = region_reserve(spaces[i].region, spaces[i].bytes, 1 << 20, 1, err);
		if (status == PROTON_OK && !add_others())
			status = err_nomem(err);
		if (status == PROTON_OK) {
			/* release: pairs with frames_are_ready's acquire */
			atomic_store_explicit(&ready, true, memory_order_release);
		} else {
			strings_fini(&frame_tables.strings);
			for (size_t i = 0; i < ARRAY_LENGTH(spaces); i++)
				region_release(spaces[i].region);
		}
	}
	return status;
}

bool frames_are_ready(void)
{
	return atomic_load_explicit(&ready, memory_order_acquire);
}

const struct row_frame *frames_get(uint32_t frame)
{
	return (const struct row_frame *)frame_tables.frames.base + frame;
}

const char *frames_text(uint32_t string, uint32_t *length_out)
{
	*length_out = string_length(&frame_tables.strings, string);
	return string_text(&frame_tables.strings, string);
}

uint32_t frames_string(const char *text, size_t length)
{
	MUTEX_HOLD(&frames_lock);
	return strings_add(&frame_tables.strings, text, length);
}

uint32_t frames_value_text(const char *text, size_t length)
{
	bool is_folded = false;

	pthread_mutex_lock(&frames_lock);
	uint32_t id = strings_find(&frame_tables.strings, text, length);
	if (id == STRING_NONE) {
		is_folded = text_count >= LIMITS_TEXTS || text_bytes + length > LIMITS_TEXT_BYTES;
		if (is_folded)
			id = frames_get(FRAME_OTHER)->name;
		else
			id = strings_add(&frame_tables.strings, text, length);
		text_count += !is_folded;
		text_bytes += is_folded ? 0 : length;
	}
	pthread_mutex_unlock(&frames_lock);
	if (is_folded)
		name_limits_count(LIMITS_FOLDED);
	return id;
}

/* ------------------------------------------------------------------ adding */

struct frame_content frames_content(enum frame_kind kind, const char *name, size_t length)
{
	return (struct frame_content){
		.kind = kind,
		.name = name,
		.name_length = length < STRING_MAX_BYTES ? length : STRING_MAX_BYTES,
		.file = "",
	};
}

/* Finds or makes a frame, unless `parent` has too many children. It is never freed. */
static uint32_t add_frame(const struct frame_content *content, uint32_t parent)
{
	uint64_t key;

	/* Frames may be made before the first session: for a decorator's name, at import. */
	if (!frames_are_ready() && frames_init(NULL) != PROTON_OK) {
		name_limits_lose();
		return FRAME_NONE;
	}
	uint32_t frame = find_fixed(content);
	if (frame)
		return frame;
	pthread_mutex_lock(&frames_lock);
	frame = frames_find(content, &key);
	if (frame)
		reused_names_set(frame, NAME_FIXED);
	else if (parent != CONTEXT_ANY && context_tree_is_full(parent))
		frame = frames_other_of(content->kind);
	else
		frame = frames_make(key, content);
	pthread_mutex_unlock(&frames_lock);
	if (frame == FRAME_NONE)
		name_limits_lose();
	else if (frames_is_other(frame) && !content_is(content, frame))
		name_limits_count(LIMITS_FOLDED);
	return frame;
}

uint32_t frames_add_below(uint32_t parent, const char *name, size_t length)
{
	struct frame_content content = frames_content(FRAME_NAME, name, length);

	return add_frame(&content, parent);
}

uint32_t frames_add(enum frame_kind kind, const char *name, size_t length)
{
	struct frame_content content = frames_content(kind, name, length);

	return add_frame(&content, CONTEXT_ANY);
}

uint32_t proton_frame(const char *name, size_t length)
{
	return frames_add(FRAME_NAME, name, length);
}

uint32_t proton_frame_source(const char *file, size_t file_length, const char *function,
			     size_t function_length, uint32_t line)
{
	struct frame_content content = frames_content(FRAME_SOURCE, function, function_length);

	content.line = line;
	content.file = file;
	content.file_length = file_length < STRING_MAX_BYTES ? file_length : STRING_MAX_BYTES;
	return add_frame(&content, CONTEXT_ANY);
}

uint32_t frames_as_kernel(uint32_t frame)
{
	uint32_t length;

	if (frame == FRAME_NONE || frames_get(frame)->kind == FRAME_KERNEL)
		return frame;
	_Atomic uint32_t *twin = (_Atomic uint32_t *)frame_tables.twins.base + frame;
	uint32_t kernel = atomic_load_explicit(twin, memory_order_acquire);
	if (kernel)
		return kernel;
	const char *name = frames_text(frames_get(frame)->name, &length);
	kernel = frames_add(FRAME_KERNEL, name, length);
	if (kernel != FRAME_NONE)
		atomic_store_explicit(twin, kernel, memory_order_release);
	return kernel;
}
