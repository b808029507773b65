/*
 * Address space that is reserved once and backed by memory as it is touched, so that what lies in
 * it never moves while it grows. Readers need no lock to follow an index into a region.
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
 * Reserves `wanted` bytes, or less where the address space is limited (RLIMIT_AS), but not
 * less than `least`. Memory reads as zero until written. `accessible` false leaves it without
 * access, for a caller that maps files over it.
 */
int region_reserve(struct region *region, size_t wanted, size_t least, int accessible,
		   struct proton_error *err);
void region_release(struct region *region);

#endif
