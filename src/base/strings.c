/* Interned strings: hash index over a string pool. */
#include "base/strings.h"

int strings_init(struct strings *strings, size_t reserve_bytes, struct proton_error *err)
{
	*strings = (struct strings){0};
	TRY(region_reserve(&strings->pool, reserve_bytes, 1 << 16, 1, err));
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
	if (length > STRING_MAX_BYTES)
		length = STRING_MAX_BYTES;
	uint64_t hash = hash_bytes(bytes, length);
	uint32_t id = find_string(strings, bytes, length, hash);
	if (id != STRING_NONE)
		return id;
	id = (uint32_t)(strings->used / 8);
	uint64_t entry = string_entry_bytes(length);
	if (!region_reaches(&strings->pool, strings->used + entry) ||
	    strings->used / 8 >= STRING_NONE - 1 || !hash_table_add(&strings->index, hash, id + 1))
		return STRING_NONE;
	char *at = (char *)strings->pool.base + strings->used;
	uint32_t stored = (uint32_t)length;
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

#define NAME_MAX_BYTES 64

size_t edit_distance(const char *a, const char *b, size_t limit)
{
	size_t length_a = strlen(a);
	size_t length_b = strlen(b);
	size_t rows[3][NAME_MAX_BYTES + 1]; /* the current row of the table and the two before it */

	if (length_a > NAME_MAX_BYTES || length_b > NAME_MAX_BYTES)
		return limit + 1;
	for (size_t k = 0; k <= length_b; k++)
		rows[0][k] = k;
	for (size_t i = 1; i <= length_a; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i - 1) % 3];

		row[0] = i;
		for (size_t k = 1; k <= length_b; k++) {
			size_t best = above[k - 1] + (a[i - 1] != b[k - 1]);

			if (above[k] + 1 < best)
				best = above[k] + 1;
			if (row[k - 1] + 1 < best)
				best = row[k - 1] + 1;
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
			    rows[(i - 2) % 3][k - 2] + 1 < best)
				best = rows[(i - 2) % 3][k - 2] + 1;
			row[k] = best;
		}
	}
	return rows[length_a % 3][length_b] > limit ? limit + 1 : rows[length_a % 3][length_b];
}
