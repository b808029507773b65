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
/* New elements are zero, up to the capacity. For arrays that are indexed by a number. */
bool array_reserve_zeros(void *data, size_t *capacity, size_t count, size_t element_bytes);
/* Adds an element, the last argument. False if out of memory. */
#define ARRAY_ADD(data, capacity, count, ...)                                                      \
	(array_reserve(&(data), &(capacity), (size_t)(count) + 1, sizeof(*(data))) &&              \
	 ((data)[(count)++] = __VA_ARGS__, true))

/*
 * For comparison functions: below, equal to or above 0. Several keys: ORDER_OF() ?: ORDER_OF().
 */
#define ORDER_OF(a, b) (((a) > (b)) - ((a) < (b)))

/*
 * Binary search: the number of elements at the start of a sorted array of `count` for which
 * `is_before`, an expression of the index `i`, is true.
 */
#define ARRAY_COUNT_BEFORE(count, i, is_before)                                                    \
	__extension__({                                                                            \
		size_t array_low = 0;                                                              \
		size_t array_high = (count);                                                       \
                                                                                                   \
		while (array_low < array_high) {                                                   \
			size_t i = array_low + (array_high - array_low) / 2;                       \
                                                                                                   \
			if (is_before)                                                             \
				array_low = i + 1;                                                 \
			else                                                                       \
				array_high = i;                                                    \
		}                                                                                  \
		array_low;                                                                         \
	})

#endif
