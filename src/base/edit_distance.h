/* The distance between two names, for suggestions in messages. */
#ifndef BASE_EDIT_DISTANCE_H
#define BASE_EDIT_DISTANCE_H

#include <stddef.h>

/*
 * The number of edits (insert, delete, replace, transpose) between two names, at most `limit` + 1.
 */
size_t edit_distance(const char *a, const char *b, size_t limit);

#endif
