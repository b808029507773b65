/* Table of code objects. There are a few thousand at most, in order of their arrival. */
#include "base/mutex.h"
#include "record/store/devices.h"

#include "base/array.h"
#include "base/map.h"

struct code_object {
	uint64_t crc;
	void *bytes; /* NULL: too large, or dropped */
	size_t length;
	bool is_sampled;
	bool is_too_large;
};

pthread_mutex_t code_objects_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct code_object *code_objects;
static size_t code_object_count;
static size_t oldest; /* earlier ones are dropped or sampled */
static uint64_t kept_bytes;
static struct map by_crc; /* index + 1 */
static _Atomic uint32_t generation;

/* The entry of a CRC, made if new; NULL if out of memory. */
static struct code_object *entry_of(uint64_t crc)
{
	uint32_t index = crc ? map_find(&by_crc, crc) : 0;

	if (index)
		return &code_objects[index - 1];
	if (!crc || !array_grow(&code_objects, code_object_count, sizeof(*code_objects)) ||
	    !map_insert(&by_crc, crc, (uint32_t)code_object_count + 1))
		return NULL;
	code_objects[code_object_count] = (struct code_object){.crc = crc};
	return &code_objects[code_object_count++];
}

static void drop_object(struct code_object *object)
{
	if (object->bytes)
		kept_bytes -= object->length;
	free(object->bytes);
	object->bytes = NULL;
}

static bool make_space(size_t length)
{
	if (length > CODE_OBJECTS_MAX_BYTES)
		return false;
	for (; kept_bytes + length > CODE_OBJECTS_MAX_BYTES && oldest < code_object_count; oldest++)
		if (!code_objects[oldest].is_sampled)
			drop_object(&code_objects[oldest]);
	return kept_bytes + length <= CODE_OBJECTS_MAX_BYTES;
}

bool code_objects_add(uint64_t crc, const void *bytes, size_t length)
{
	bool is_added = false;
	MUTEX_HOLD(&code_objects_lock);
	struct code_object *object = entry_of(crc);

	if (object && !object->bytes && length) {
		object->is_too_large = !make_space(length);
		object->bytes = object->is_too_large ? NULL : malloc(length);
		if (object->bytes) {
			memcpy(object->bytes, bytes, length);
			object->length = length;
			kept_bytes += length;
			is_added = true;
			if ((size_t)(object - code_objects) < oldest)
				oldest = (size_t)(object - code_objects);
		}
		atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
	}
	return is_added;
}

enum code_object_state code_objects_sampled(uint64_t crc)
{
	return code_objects_read(crc, NULL, NULL);
}

enum code_object_state code_objects_read(uint64_t crc,
					 void (*use)(void *user, const void *bytes, size_t length),
					 void *user)
{
	enum code_object_state state = CODE_OBJECT_UNKNOWN;
	MUTEX_HOLD(&code_objects_lock);
	struct code_object *object = entry_of(crc);

	if (object && object->bytes)
		state = CODE_OBJECT_KEPT;
	else if (object && object->is_too_large)
		state = CODE_OBJECT_TOO_LARGE;
	if (object)
		object->is_sampled = true;
	if (use && state == CODE_OBJECT_KEPT)
		use(user, object->bytes, object->length);
	return state;
}

uint32_t code_objects_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}
