/*
 * Reading a profile file while its process records into it, or after that was killed.
 *
 * The recorder counts a row after it has filled it, and links the row to others after that. So the
 * tables are read in the order of the links, from the rows that refer to the rows that are referred
 * to, each with the count that it has when its turn comes: what was linked when the first was read
 * is counted when the second is. One read of the whole file has no such order, and finds links to
 * rows that were not counted when it began.
 */
#ifndef FORMAT_PROFILE_SNAPSHOT_H
#define FORMAT_PROFILE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The file at `path` as a profile file with one extent per table, malloc'd. False, with nothing to
 * free, for any file that is not an undamaged one in the state "recording": read it as it is.
 */
bool profile_snapshot_read(const char *path, char **bytes_out, size_t *length_out);

#endif
