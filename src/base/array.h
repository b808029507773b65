/* Growable arrays for the `pointer, count, capacity` triples used throughout. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

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

/* free() of each; they may be NULL. */
#define FREE_ALL(...)                                                                              \
	array_free_all((void *const[]){__VA_ARGS__}, ARRAY_LENGTH(((void *const[]){__VA_ARGS__})))
void array_free_all(void *const *arrays, size_t count);

/* For comparison: below, equal to or above 0. Several keys: ORDER_OF() ?: ORDER_OF(). */
#define ORDER_OF(a, b) (((a) > (b)) - ((a) < (b)))

/* Defines a comparison function; the last argument is its result for two elements *a and *b. */
#define ARRAY_ORDER(name, type, ...)                                                               \
	static int name(const void *array_left, const void *array_right)                           \
	{                                                                                          \
		const type *a = array_left;                                                        \
		const type *b = array_right;                                                       \
                                                                                                   \
		return __VA_ARGS__;                                                                \
	}

/* Sorts by such a function. The array may be NULL if `count` is 0. */
#define ARRAY_SORT(array, count, compare)                                                          \
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers, too */                         \
	array_sort(array, count, sizeof((array)[0]), compare)
static inline void array_sort(void *array, size_t count, size_t element_bytes,
			      int (*compare)(const void *a, const void *b))
{
	if (count)
		qsort(array, count, element_bytes, compare);
}

/* Binary search: how many of `count` elements, by index `i`, come before, as `is_before` says. */
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
