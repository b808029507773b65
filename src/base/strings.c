/* Interned strings: hash index over a string pool. */
#include "base/strings.h"

#include <string.h>

int strings_init(struct strings *strings, size_t reserve_bytes, struct proton_error *err)
{
	int status;

	*strings = (struct strings){0};
	status = region_reserve(&strings->pool, reserve_bytes, 1 << 16, 1, err);
	if (status != PROTON_OK)
		return status;
	if (strings_add(strings, "", 0) == STRING_NONE) {
		region_release(&strings->pool);
		return err_nomem(err);
	}
	return PROTON_OK;
}

void strings_fini(struct strings *strings)
{
	region_release(&strings->pool);
	hash_table_fini(&strings->index);
	*strings = (struct strings){0};
}

static uint32_t find_string(const struct strings *strings, const char *bytes, size_t length,
			    uint64_t hash)
{
	uint64_t at = hash;
	uint32_t id;

	do
		id = hash_table_next(&strings->index, hash, &at) - 1;
	while (id != STRING_NONE && (string_length(strings, id) != length ||
				     memcmp(string_text(strings, id), bytes, length) != 0));
	return id;
}

uint32_t strings_add(struct strings *strings, const char *bytes, size_t length)
{
	uint64_t entry;
	uint64_t hash;
	uint32_t id;
	uint32_t stored;
	char *at;

	if (length > STRING_MAX_BYTES)
		length = STRING_MAX_BYTES;
	hash = hash_bytes(bytes, length);
	id = find_string(strings, bytes, length, hash);
	if (id != STRING_NONE)
		return id;
	id = (uint32_t)(strings->used / 8);
	entry = string_entry_bytes(length);
	if (!region_reaches(&strings->pool, strings->used + entry) ||
	    strings->used / 8 >= STRING_NONE - 1 || !hash_table_add(&strings->index, hash, id + 1))
		return STRING_NONE;
	at = (char *)strings->pool.base + strings->used;
	stored = (uint32_t)length;
	memcpy(at, &stored, sizeof(stored));
	memcpy(at + 4, bytes, length); /* the NUL and the padding are already zero */
	strings->used += entry;
	return id;
}

uint32_t strings_find(const struct strings *strings, const char *bytes, size_t length)
{
	if (length > STRING_MAX_BYTES)
		length = STRING_MAX_BYTES; /* as strings_add() truncates it */
	return find_string(strings, bytes, length, hash_bytes(bytes, length));
}

uint32_t strings_reserve(struct strings *strings, size_t bytes)
{
	uint32_t id = (uint32_t)(strings->used / 8);

	if (!region_reaches(&strings->pool, strings->used + bytes) ||
	    strings->used / 8 >= STRING_NONE - 1)
		return STRING_NONE;
	strings->used += bytes;
	return id;
}
