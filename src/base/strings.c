/* Interned strings: hash index over a string pool. */
#include "base/strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define FIRST_SLOTS 256u

int strings_init(struct strings *strings, size_t reserve_bytes, struct proton_error *err)
{
	int status;

	*strings = (struct strings){0};
	status = region_reserve(&strings->pool, reserve_bytes, 1 << 16, 1, err);
	if (status != PROTON_OK)
		return status;
	strings->slots = calloc(FIRST_SLOTS, sizeof(*strings->slots));
	if (!strings->slots) {
		region_release(&strings->pool);
		return err_nomem(err);
	}
	strings->slot_count = FIRST_SLOTS;
	strings_add(strings, "", 0);
	return PROTON_OK;
}

void strings_fini(struct strings *strings)
{
	region_release(&strings->pool);
	free(strings->slots);
	*strings = (struct strings){0};
}

/* The slot that contains these bytes, or else the free one for them. */
static uint32_t slot_of(const struct strings *strings, const char *bytes, size_t length)
{
	uint32_t mask = strings->slot_count - 1;
	uint32_t slot = (uint32_t)hash_bytes(bytes, length) & mask;

	while (strings->slots[slot]) {
		uint32_t id = strings->slots[slot] - 1;

		if (string_length(strings, id) == length &&
		    memcmp(string_text(strings, id), bytes, length) == 0)
			break;
		slot = (slot + 1) & mask;
	}
	return slot;
}

static bool grow(struct strings *strings)
{
	uint32_t old_count = strings->slot_count;
	uint32_t *old = strings->slots;
	uint32_t *slots;

	if (old_count > UINT32_MAX / 2)
		return false;
	slots = calloc((size_t)old_count * 2, sizeof(*slots));
	if (!slots)
		return false;
	strings->slots = slots;
	strings->slot_count = old_count * 2;
	for (uint32_t i = 0; i < old_count; i++) {
		uint32_t id = old[i] - 1;

		if (old[i])
			slots[slot_of(strings, string_text(strings, id),
				      string_length(strings, id))] = id + 1;
	}
	free(old);
	return true;
}

uint32_t strings_add(struct strings *strings, const char *bytes, size_t length)
{
	uint64_t entry;
	uint32_t slot;
	uint32_t id;
	uint32_t stored;
	char *at;

	if (length > STRING_MAX_BYTES)
		length = STRING_MAX_BYTES;
	slot = slot_of(strings, bytes, length);
	if (strings->slots[slot])
		return strings->slots[slot] - 1;
	entry = string_entry_bytes(length);
	if (strings->used + entry > strings->pool.bytes || strings->used / 8 >= STRING_NONE - 1)
		return STRING_NONE;
	if (strings->count >= strings->slot_count / 2) {
		if (!grow(strings))
			return STRING_NONE;
		slot = slot_of(strings, bytes, length);
	}
	at = (char *)strings->pool.base + strings->used;
	stored = (uint32_t)length;
	memcpy(at, &stored, sizeof(stored));
	memcpy(at + 4, bytes, length); /* the NUL and the padding are already zero */
	id = (uint32_t)(strings->used / 8);
	strings->used += entry;
	strings->slots[slot] = id + 1;
	strings->count++;
	return id;
}

uint32_t strings_find(const struct strings *strings, const char *bytes, size_t length)
{
	uint32_t slot;

	if (length > STRING_MAX_BYTES)
		length = STRING_MAX_BYTES; /* as strings_add() truncates it */
	slot = slot_of(strings, bytes, length);
	return strings->slots[slot] ? strings->slots[slot] - 1 : STRING_NONE;
}

uint32_t strings_reserve(struct strings *strings, size_t bytes)
{
	uint32_t id = (uint32_t)(strings->used / 8);

	if (strings->used + bytes > strings->pool.bytes || strings->used / 8 >= STRING_NONE - 1)
		return STRING_NONE;
	strings->used += bytes;
	return id;
}
