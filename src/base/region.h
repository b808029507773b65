/*
 * Reserved address space, backed by memory when it is first touched: the content never moves while
 * it grows. Readers need no lock to follow an index into a region.
 */
#ifndef BASE_REGION_H
#define BASE_REGION_H

#include <stddef.h>

#include "base/err.h"

struct region {
	void *base;
	size_t bytes; /* reserved */
};

/*
 * Reserves `wanted` bytes, or less if the address space is limited (RLIMIT_AS), but at least
 * `minimum`. Memory reads as zero until written. With `accessible` false it has no access rights,
 * for a caller that maps files over it.
 */
int region_reserve(struct region *region, size_t wanted, size_t minimum, int accessible,
		   struct proton_error *err);
void region_release(struct region *region);

#endif
