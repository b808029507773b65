/* Loaded code objects: kernels by the id of dispatches; bytes, and functions by address. */
#include "backend/amd/sdk_backend.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/amd/hip_calls.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mutex.h"
#include "record/names/frames.h"
#include "record/store/devices.h"
#include "symbol/code_object.h"

/* ------------------------------------------------------------------ kernels */

/*
 * They are stored from the registration on, whether or not a session runs: a kernel is loaded once,
 * and launched later. Ids count from 1, so they are places in an array. They are never reused, and
 * a record may come after its code was unloaded: nothing is removed.
 */
#define ID_MAX (1u << 22)
#define UNNAMED "(unnamed kernel)"

/* A kernel, and its name until the first record of it needs a frame. */
struct entry {
	struct kernel_symbol symbol;
	char *name;
};

static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct entry *entries;
static size_t entry_capacity;

uint32_t kernel_symbols_frame(const char *name)
{
	if (!name)
		name = UNNAMED;
	size_t length = strlen(name);
	if (length > 3 && strcmp(name + length - 3, ".kd") == 0)
		length -= 3; /* the kernel's descriptor */
	return frames_add(FRAME_KERNEL, name, length);
}

static bool begins_with(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* Libraries load tens of thousands of kernels: a kernel gets its frame with its first record. */
void kernel_symbols_add(const struct sdk_kernel_symbol *from)
{
	const char *name = from->name ? from->name : UNNAMED;
	uint64_t id = from->kernel_id;
	struct entry entry = {
		.symbol = {.group_bytes = from->group_bytes,
			   .registers = from->vector_registers + from->accumulation_registers,
			   .is_fill = begins_with(name, "__amd_rocclr_fill"),
			   .is_copy = begins_with(name, "__amd_rocclr_copy")},
		.name = strdup(name),
	};
	char *unused = entry.name;

	pthread_mutex_lock(&kernels_lock);
	if (id && id < ID_MAX && entry.name &&
	    array_reserve_zeros(&entries, &entry_capacity, id + 1, sizeof(*entries))) {
		unused = entries[id].name;
		entries[id] = entry;
	}
	pthread_mutex_unlock(&kernels_lock);
	free(unused);
}

bool kernel_symbols_find(uint64_t kernel_id, struct kernel_symbol *out)
{
	struct entry *entry = NULL;

	MUTEX_HOLD(&kernels_lock);
	if (kernel_id < entry_capacity && entries[kernel_id].name)
		entry = &entries[kernel_id];
	if (entry && !entry->symbol.frame)
		entry->symbol.frame = kernel_symbols_frame(entry->name);
	if (entry)
		*out = entry->symbol;
	return entry;
}

/* ------------------------------------------------------------------ code objects */

#define STORAGE_FILE 1
#define STORAGE_MEMORY 2
/* Libraries load a few thousand. Their ids are never reused. */
#define OBJECTS_MAX (1u << 20)

struct function {
	uint64_t begin, end; /* virtual addresses */
	char *name;
	uint32_t id; /* record/store/devices.h; 0: no sample yet */
};

struct object {
	uint64_t id, hash;
	uint64_t bias;              /* virtual address of the first loaded byte */
	struct function *functions; /* by address */
	size_t count;
	bool is_parsed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct object *objects;
static size_t object_count;
static struct map by_id; /* index + 1 */

/* ------------------------------------------------------------------ loading */

static void keep_object(const struct sdk_code_object *loaded, const void *bytes, size_t length)
{
	struct object object = {
		.id = loaded->id,
		.hash = hash_stored(bytes, length),
		.bias = loaded->load_base - (uint64_t)loaded->load_delta,
	};

	code_objects_add(object.hash, bytes, length);
	MUTEX_HOLD(&lock);
	if (!map_find(&by_id, object.id) && object_count < OBJECTS_MAX &&
	    array_grow(&objects, object_count, sizeof(*objects)) &&
	    map_insert(&by_id, object.id, (uint32_t)object_count + 1))
		objects[object_count++] = object;
}

/* "file://PATH#offset=N&size=N"; PATH may have %XX. False: not such a text. */
static bool read_uri(const char *uri, char *path, size_t capacity, uint64_t *offset,
		     uint64_t *bytes)
{
	const char *part = strchr(uri, '#');
	size_t length = 0;

	*offset = *bytes = 0;
	if (strncmp(uri, "file://", 7) != 0)
		return false;
	for (uri += 7; *uri && uri != part && length + 1 < capacity; uri++) {
		path[length++] = *uri;
		if (*uri != '%' || !isxdigit((unsigned char)uri[1]) ||
		    !isxdigit((unsigned char)uri[2]))
			continue;
		path[length - 1] = (char)strtoul((char[]){uri[1], uri[2], '\0'}, NULL, 16);
		uri += 2;
	}
	path[length] = '\0';
	if (part && strstr(part, "offset="))
		*offset = strtoull(strstr(part, "offset=") + 7, NULL, 0);
	if (part && strstr(part, "size="))
		*bytes = strtoull(strstr(part, "size=") + 5, NULL, 0);
	return length > 0;
}

static void keep_file(const struct sdk_code_object *loaded)
{
	char path[4096];
	uint64_t offset, bytes;
	struct stat st;

	if (!loaded->uri || !read_uri(loaded->uri, path, sizeof(path), &offset, &bytes))
		return;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return;
	void *content = MAP_FAILED;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && offset < (uint64_t)st.st_size)
		content = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (content == MAP_FAILED)
		return;
	if (!bytes || bytes > (uint64_t)st.st_size - offset)
		bytes = (uint64_t)st.st_size - offset;
	keep_object(loaded, (const char *)content + offset, bytes);
	munmap(content, (size_t)st.st_size);
}

void sdk_code_objects_add(const struct sdk_code_object *loaded)
{
	if (loaded->storage == STORAGE_FILE)
		keep_file(loaded);
	else if (loaded->storage == STORAGE_MEMORY && loaded->memory && loaded->memory_bytes)
		keep_object(loaded, (const void *)(uintptr_t)loaded->memory, loaded->memory_bytes);
}

/* ------------------------------------------------------------------ lookup */

ARRAY_ORDER(compare_functions, struct function, ORDER_OF(a->begin, b->begin))

/* Copies the functions of the code object; `user` is its entry. The lock is held. */
static void copy_functions(void *user, const void *bytes, size_t length)
{
	struct object *object = user;
	struct code_object code;
	struct code_object_section section;

	if (code_object_open(&code, bytes, length, NULL) != PROTON_OK)
		return;
	object->functions = calloc(code.function_count + (size_t)1, sizeof(*object->functions));
	for (uint32_t i = 0; object->functions && i < code.function_count; i++) {
		const struct code_object_function *from = &code.functions[i];

		if (!code_object_section_get(&code, from->section, &section))
			continue;
		object->functions[object->count++] = (struct function){
			.begin = section.address + from->offset,
			.end = section.address + from->offset + from->code_bytes,
			.name = strdup(from->name),
		};
	}
	if (object->functions)
		ARRAY_SORT(object->functions, object->count, compare_functions);
	code_object_close(&code);
}

static struct function *function_at(struct object *object, uint64_t address)
{
	const struct function *functions = object->functions;
	size_t count = ARRAY_COUNT_BEFORE(object->count, i, functions[i].begin <= address);

	return count && address < functions[count - 1].end ? &object->functions[count - 1] : NULL;
}

bool sdk_code_objects_find(uint64_t id, uint64_t offset, uint32_t *function_out,
			   uint32_t *offset_out)
{
	struct function *function = NULL;
	MUTEX_HOLD(&lock);
	uint32_t index = id ? map_find(&by_id, id) : 0;

	if (index) {
		struct object *object = &objects[index - 1];
		uint64_t address = object->bias + offset;

		if (!object->is_parsed) {
			object->is_parsed = true;
			if (code_objects_sampled(object->hash) == CODE_OBJECT_KEPT)
				code_objects_read(object->hash, copy_functions, object);
		}
		function = function_at(object, address);
		if (function && !function->id && function->name)
			function->id = gpu_functions_add(object->hash, function->name);
		if (function)
			*offset_out = (uint32_t)(address - function->begin);
	}
	if (function)
		*function_out = function->id;
	return function && *function_out;
}
