/* Address ranges, backed by memory when touched: content never moves, readers need no lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct region {
	void *base;
	size_t bytes;     /* mapped */
	size_t limit;     /* it never grows beyond this */
	bool is_reserved; /* all of it is mapped without access, see reserve_whole() */
};

/*
 * A range for up to `limit` bytes, or fewer if there are not so many addresses, but at least
 * `minimum`, which are mapped at once. Memory reads as zero until written. With `accessible` false
 * nothing is mapped: the caller maps files with region_map().
 */
int region_reserve(struct region *region, size_t limit, size_t minimum, int accessible,
		   struct proton_error *err);
void region_release(struct region *region);

/* Maps the next `bytes` (N x 64 KiB) from a file or, if `fd` is -1, memory. An errno, or 0. */
int region_map(struct region *region, size_t bytes, int fd, off_t offset);

/* Maps more until `bytes` are mapped; false if that is not possible. One thread at a time. */
__attribute__((cold)) bool region_grow(struct region *region, size_t bytes);

/* True if the first `bytes` are mapped. From any thread. */
static inline bool region_holds(const struct region *region, size_t bytes)
{
	/* acquire: pairs with region_map() */
	return bytes <= __atomic_load_n(&region->bytes, __ATOMIC_ACQUIRE);
}

/* Also maps them if necessary. */
static inline bool region_reaches(struct region *region, size_t bytes)
{
	return region_holds(region, bytes) || region_grow(region, bytes);
}

/* Data of different threads must not share a cache line. */

#define CACHE_LINE_BYTES 64
