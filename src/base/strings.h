/*
 * Interned strings: a pool of bytes in the layout of a profile file's string table, and an index
 * over it. An id is the entry's byte offset divided by 8; id 0 is the empty string. An entry is a
 * little-endian u32 length, the bytes, a NUL, and zeros up to a multiple of 8.
 *
 * Not thread-safe: callers lock writers. string_text() of a known id needs no lock, because the
 * pool never moves.
 */
#pragma once

#include "base/hash.h"
#include "base/region.h"

#define STRING_NONE UINT32_MAX
/* Longer strings are truncated to this; a name of this length is a mistake. */
#define STRING_MAX_BYTES (1u << 20)

struct strings {
	struct region pool;
	uint64_t used;           /* bytes of the pool */
	struct hash_table index; /* by content; id + 1 */
};

int strings_init(struct strings *strings, size_t reserve_bytes, struct proton_error *err);
void strings_fini(struct strings *strings);
/* The id of these bytes, STRING_NONE if out of memory. */
uint32_t strings_add(struct strings *strings, const char *bytes, size_t length);
/* The id of the string, STRING_NONE if it is not in the pool. */
uint32_t strings_find(const struct strings *strings, const char *bytes, size_t length);
/* An entry of `bytes`, a multiple of 8, outside the index, for texts that change. STRING_NONE. */
uint32_t strings_reserve(struct strings *strings, size_t bytes);

/* Size in bytes of an entry with `length` bytes of text. */
static inline uint64_t string_entry_bytes(uint64_t length)
{
	return (4 + length + 1 + 7) & ~7ull;
}

static inline const char *string_text(const struct strings *strings, uint32_t id)
{
	return (const char *)strings->pool.base + (uint64_t)id * 8 + 4;
}

static inline uint32_t string_length(const struct strings *strings, uint32_t id)
{
	return *(const uint32_t *)(const void *)((const char *)strings->pool.base +
						 (uint64_t)id * 8);
}

/* Writes `text` into an entry of `bytes`. The rest is zeros, which read as empty strings. */
static inline void string_write(void *entry, size_t bytes, const char *text, size_t length)
{
	uint32_t stored = (uint32_t)length;

	memcpy(entry, &stored, sizeof(stored));
	memcpy((char *)entry + 4, text, length);
	memset((char *)entry + 4 + length, 0, bytes - 4 - length);
}

/* The edits (insert, delete, replace, transpose) between two names, at most `limit` + 1. */
size_t edit_distance(const char *a, const char *b, size_t limit);
