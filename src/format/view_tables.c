/* Tables of an open profile file: the sizes of rows, strings. See docs/format.md. */
#include "format/profile_view.h"

#include <stdlib.h>
#include <string.h>

const uint32_t profile_row_bytes[TABLE_COUNT] = {
#define TABLE(name, id, row, ...) [id] = sizeof(row),
#include "format/tables.def"
#undef TABLE
};

void profile_view_fini(struct profile_view *view)
{
	for (int id = 0; id < TABLE_COUNT; id++)
		free(view->owned[id]);
	*view = (struct profile_view){0};
}

const char *profile_view_string(const struct profile_view *view, uint32_t id, uint32_t *length_out)
{
	uint64_t table_bytes = view->rows[TABLE_STRINGS] * 8;
	uint64_t at = (uint64_t)id * 8;
	const char *strings = view->table[TABLE_STRINGS];
	uint32_t length;

	*length_out = 0;
	if (at + 8 > table_bytes)
		return "";
	memcpy(&length, strings + at, sizeof(length));
	if (at + 4 + (uint64_t)length + 1 > table_bytes || strings[at + 4 + length] != '\0')
		return "";
	*length_out = length;
	return strings + at + 4;
}
