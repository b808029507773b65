/*
 * Kernels of loaded code objects, by the id that dispatches carry. They are stored from the
 * registration on, whether or not a session runs: a kernel is loaded once, and launched later. The
 * ids count from 1, so they are places in an array.
 * Ids are never reused, and a record may come after its code was unloaded: nothing is removed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/amd/hip_calls.h"
#include "backend/amd/sdk_backend.h"
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
	char *old = entry.name;

	pthread_mutex_lock(&lock);
	if (id && id < ID_MAX && entry.name &&
	    array_reserve_zeros(&entries, &capacity, id + 1, sizeof(*entries))) {
		old = entries[id].name;
		entries[id] = entry;
	}
	pthread_mutex_unlock(&lock);
	free(old);
}

bool kernel_symbols_find(uint64_t kernel_id, struct kernel_symbol *out)
{
	struct entry *entry = NULL;

	pthread_mutex_lock(&lock);
	if (kernel_id < capacity && entries[kernel_id].name)
		entry = &entries[kernel_id];
	if (entry && !entry->symbol.frame)
		entry->symbol.frame = kernel_symbols_frame(entry->name);
	if (entry)
		*out = entry->symbol;
	pthread_mutex_unlock(&lock);
	return entry;
}
