/*
 * Growable arrays for the `pointer, count, capacity` triples used throughout, and freeing
 * memory. Has stdlib.h and string.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Makes room for `count` elements of `element_bytes` in *data (malloc'd, or NULL with *capacity 0),
 * doubling the capacity. False if out of memory; *data is then unchanged. New elements are not
 * initialized.
 */
bool array_reserve(void *data, size_t *capacity, size_t count, size_t element_bytes);
/* New elements are zero, up to the capacity. For arrays that are indexed by a number. */
bool array_reserve_zeros(void *data, size_t *capacity, size_t count, size_t element_bytes);
/*
 * Adds an element, the last argument, to *data (NULL, or grown by these functions only). False if
 * out of memory. No capacity is kept: the count says when the array is full, at powers of two.
 */
#define ARRAY_ADD(data, count, ...)                                                                \
	(array_grow(&(data), (size_t)(count), sizeof(*(data))) &&                                  \
	 ((data)[(count)++] = __VA_ARGS__, true))
/* The same with a capacity, for an array that is emptied and filled again and again. */
#define ARRAY_ADD_AGAIN(data, capacity, count, ...)                                                \
	(array_reserve(&(data), &(capacity), (size_t)(count) + 1, sizeof(*(data))) &&              \
	 ((data)[(count)++] = __VA_ARGS__, true))
/* As ARRAY_ADD(), before the element at `index`. */
#define ARRAY_INSERT(data, count, index, ...)                                                      \
	(array_grow(&(data), (size_t)(count), sizeof(*(data))) &&                                  \
	 (memmove(&(data)[(index) + 1], &(data)[index], ((count) - (index)) * sizeof(*(data))),    \
	  (data)[index] = __VA_ARGS__, (count)++, true))
#define ARRAY_REMOVE(data, count, index)                                                           \
	((void)memmove(&(data)[index], &(data)[(index) + 1],                                       \
		       ((count) - (index)-1) * sizeof(*(data))),                                   \
	 (void)(count)--)
/* Makes room for one more element after `count`. */
bool array_grow(void *data, size_t count, size_t element_bytes);

/* A loop over the elements, by pointers to them. It must not add to the array. */
#define ARRAY_EACH(item, array, count)                                                             \
	for (__typeof__((array)[0]) *item = (array); (count) && item < (array) + (count); item++)

/* free() of each; they may be NULL. */
#define FREE_ALL(...)                                                                              \
	array_free_all((void *const[]){__VA_ARGS__}, ARRAY_LENGTH(((void *const[]){__VA_ARGS__})))
void array_free_all(void *const *arrays, size_t count);

/* Before a local variable: `fini` of its address at the end of its block, on whatever way. */
#define AT_END(fini) __attribute__((cleanup(fini), unused))
/* Before a local pointer: free() at the end of its block. */
#define AUTO_FREE AT_END(array_auto_free)
static inline void array_auto_free(void *pointer)
{
	free(*(void **)pointer);
}

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
