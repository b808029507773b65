/*
 * Consistent snapshot of a profile file of a process that is still recording, or was killed.
 *
 * The recorder counts a row after filling it, and links it to others after that. So tables are read
 * in the order of the links, from rows that refer to rows that are referred to, each with its count
 * at that moment: every row that a link refers to is then counted. A single read of the whole file
 * has no such order and finds links to rows that were not counted when it began.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The file at `path` as a profile file with one extent per table, malloc'd. False, with nothing to
 * free, unless the file is intact and in state "recording": then read it without a snapshot.
 */
bool profile_snapshot_read(const char *path, char **bytes_out, size_t *length_out);
