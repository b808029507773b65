/* Growable arrays for the `pointer, count, capacity` triples used throughout. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Makes room for `count` elements of `element_bytes` in *data (malloc'd, or NULL with *capacity 0),
 * doubling the capacity. False if out of memory; *data is then unchanged. New elements are not
 * initialized.
 */
bool array_reserve(void *data, size_t *capacity, size_t count, size_t element_bytes);

#endif
