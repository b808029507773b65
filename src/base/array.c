/* Growable arrays: doubling reallocation. */
#include "base/array.h"

#include <stdint.h>

#define CAPACITY_MIN 16

bool array_reserve(void *data, size_t *capacity, size_t count, size_t element_bytes)
{
	size_t wanted = *capacity ? *capacity : CAPACITY_MIN;
	size_t bytes;
	void *old;

	if (count <= *capacity)
		return true;
	while (wanted < count) {
		if (wanted > SIZE_MAX / 2)
			return false;
		wanted *= 2;
	}
	if (__builtin_mul_overflow(wanted, element_bytes, &bytes))
		return false;
	memcpy(&old, data, sizeof(old)); /* `data` is a T **; copying keeps aliasing rules */
	void *new = realloc(old, bytes);
	if (!new)
		return false;
	memcpy(data, &new, sizeof(new));
	*capacity = wanted;
	return true;
}

bool array_reserve_zeros(void *data, size_t *capacity, size_t count, size_t element_bytes)
{
	size_t known = *capacity;
	char *bytes;

	if (!array_reserve(data, capacity, count, element_bytes))
		return false;
	memcpy(&bytes, data, sizeof(bytes));
	if (*capacity > known)
		memset(bytes + known * element_bytes, 0, (*capacity - known) * element_bytes);
	return true;
}

bool array_grow(void *data, size_t count, size_t element_bytes)
{
	void *old;

	memcpy(&old, data, sizeof(old));
	if (old && (count < CAPACITY_MIN || (count & (count - 1))))
		return true;
	size_t capacity = old ? count : 0;
	return array_reserve(data, &capacity, count + 1, element_bytes);
}

void array_free_all(void *const *arrays, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(arrays[i]);
}
