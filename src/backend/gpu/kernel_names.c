/* Kernel names by address. */
#include "backend/gpu/kernel_names.h"

#include <string.h>

#include "base/hash.h"
#include "record/names/frames.h"

#define NAME_CACHE 1024u

static struct {
	const char *name;
	uint32_t frame;
} name_cache[NAME_CACHE];

uint32_t kernel_names_frame(const char *name)
{
	size_t slot;

	if (!name)
		name = "(unnamed kernel)";
	slot = hash_u64((uintptr_t)name) % NAME_CACHE;

	if (name_cache[slot].name != name) {
		name_cache[slot].name = name;
		name_cache[slot].frame = frames_add(FRAME_KERNEL, name, strlen(name));
	}
	return name_cache[slot].frame;
}

void kernel_names_clear(void)
{
	memset(name_cache, 0, sizeof(name_cache));
}
