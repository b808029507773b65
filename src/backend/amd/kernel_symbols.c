/*
 * Kernels of loaded code objects. The ids of kernels count from 1, so they are places in an array.
 * Ids are never reused, and a record may come after its code was unloaded: nothing is removed.
 */
#include "backend/amd/kernel_symbols.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "record/names/frames.h"

#define ID_MAX (1u << 22)
#define UNNAMED "(unnamed kernel)"

/* A kernel, and its name until the first record of it needs a frame. */
struct entry {
	struct kernel_symbol symbol;
	char *name;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct entry *entries;
static size_t count;
static size_t capacity;

uint32_t kernel_symbols_frame(const char *name)
{
	size_t length;

	if (!name)
		name = UNNAMED;
	length = strlen(name);
	if (length > 3 && strcmp(name + length - 3, ".kd") == 0)
		length -= 3; /* the kernel's descriptor */
	return frames_add(FRAME_KERNEL, name, length);
}

static bool begins_with(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* Libraries load tens of thousands of kernels: a kernel gets its frame with its first record. */
static struct entry read_symbol(const struct sdk_kernel_symbol *from)
{
	const char *name = from->name ? from->name : UNNAMED;

	return (struct entry){
		.symbol = {.code_object = from->code_object_id,
			   .group_bytes = from->group_bytes,
			   .registers = from->vector_registers + from->accumulation_registers,
			   .is_fill = begins_with(name, "__amd_rocclr_fill"),
			   .is_copy = begins_with(name, "__amd_rocclr_copy")},
		.name = strdup(name),
	};
}

/* The lock is held. */
static bool put_symbol(uint64_t id, struct entry entry)
{
	if (!entry.name || !array_reserve(&entries, &capacity, id + 1, sizeof(*entries)))
		return false;
	if (id >= count) {
		memset(entries + count, 0, (id + 1 - count) * sizeof(*entries));
		count = id + 1;
	}
	free(entries[id].name);
	entries[id] = entry;
	return true;
}

void kernel_symbols_add(const struct sdk_kernel_symbol *from)
{
	struct entry entry;

	if (!from->kernel_id || from->kernel_id >= ID_MAX)
		return;
	entry = read_symbol(from);
	pthread_mutex_lock(&lock);
	if (!put_symbol(from->kernel_id, entry))
		free(entry.name);
	pthread_mutex_unlock(&lock);
}

bool kernel_symbols_find(uint64_t kernel_id, struct kernel_symbol *out)
{
	struct entry *entry = NULL;

	pthread_mutex_lock(&lock);
	if (kernel_id < count && entries[kernel_id].name)
		entry = &entries[kernel_id];
	if (entry && !entry->symbol.frame)
		entry->symbol.frame = kernel_symbols_frame(entry->name);
	if (entry)
		*out = entry->symbol;
	pthread_mutex_unlock(&lock);
	return entry;
}

void kernel_symbols_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}
