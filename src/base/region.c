/* Address ranges that are mapped in steps. */
#include "base/region.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/guest.h"

#define GRAIN ((size_t)64 << 10) /* the largest page size of supported machines */
#define STEP_MAX ((size_t)64 << 20)

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/*
 * A mapping counts against RLIMIT_AS of the program, with or without memory. So a region has
 * addresses that nothing else uses, and maps them when it grows. They are far away from code:
 * Linux places a mapping right below the previous ones, so large mappings would separate the
 * libraries that were loaded before from those loaded later. Calls over more than 4 GiB are
 * predicted worse: with 300 GB between Python and torch, small operations of torch took 3.5 % more
 * CPU time (Intel Xeon).
 */
#define AWAY_FROM_CODE ((uintptr_t)16 << 40)
#define UNIT_BYTES ((size_t)1 << 30)
#define UNIT_COUNT 16384u

static _Atomic bool units[UNIT_COUNT]; /* taken by a region */
/* Regions begin at different places: caches find lines by address bits, equal for all units. */
static _Atomic size_t regions;

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* The lowest address of the units, below the code if there is space; 0: they have none. */
static uintptr_t first_address(void)
{
	uintptr_t code = (uintptr_t)region_reserve & ~(UNIT_BYTES - 1);

	if (HAS_THREAD_SANITIZER)
		return 0;
	/* Code is low with `ulimit -s unlimited` and in emulators. */
	return code < 3 * AWAY_FROM_CODE ? code + AWAY_FROM_CODE
					 : code - AWAY_FROM_CODE - UNIT_COUNT * UNIT_BYTES;
}

static void give_back(size_t first, size_t count)
{
	while (count--)
		atomic_store_explicit(&units[first++], false, memory_order_relaxed);
}

/* Takes adjacent units, without a lock: fork() may come at any time. UNIT_COUNT: none are free. */
static size_t take_units(size_t count)
{
	size_t got = 0;
	size_t at;

	for (at = 0; at < UNIT_COUNT && got < count; at++) {
		if (!atomic_exchange_explicit(&units[at], true, memory_order_relaxed)) {
			got++;
			continue;
		}
		give_back(at - got, got);
		got = 0;
	}
	if (got == count)
		return at - got;
	give_back(at - got, got);
	return UNIT_COUNT;
}

int region_map(struct region *region, size_t bytes, int fd, off_t offset)
{
	char *at = (char *)region->base + region->bytes;
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;

	if (bytes > region->limit - region->bytes)
		return ENOMEM;
	flags |= region->is_reserved ? MAP_FIXED : MAP_FIXED_NOREPLACE;
	void *mapped = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
	if (mapped == MAP_FAILED)
		return errno;
	if (mapped != at) { /* the range is taken, and the kernel is older than 4.17 */
		munmap(mapped, bytes);
		return EEXIST;
	}
	/* The tables of a profiler do not belong in core dumps of the program. */
	madvise(at, bytes, MADV_DONTDUMP);
	/* release: pairs with region_holds() */
	__atomic_store_n(&region->bytes, region->bytes + bytes, __ATOMIC_RELEASE);
	return 0;
}

bool region_grow(struct region *region, size_t bytes)
{
	size_t step = region->bytes < STEP_MAX ? region->bytes : STEP_MAX;

	if (bytes > region->limit)
		return false;
	size_t missing = round_up(bytes, GRAIN) - region->bytes;
	if (step > region->limit - region->bytes)
		step = region->limit - region->bytes;
	return (step > missing && region_map(region, step, -1, 0) == 0) ||
	       region_map(region, missing, -1, 0) == 0;
}

/* Takes addresses that no other region has; false if that is not possible. */
static bool take_addresses(struct region *region, size_t minimum, bool accessible)
{
	uintptr_t first = first_address();
	size_t place = atomic_fetch_add_explicit(&regions, 1, memory_order_relaxed) % 64 * GRAIN;
	size_t count = round_up(place + region->limit, UNIT_BYTES) / UNIT_BYTES;
	size_t unit;

	/* A range in which the program has a mapping stays taken: the next one is tried. */
	while (first && (unit = take_units(count)) < UNIT_COUNT) {
		/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
		region->base = (char *)first + unit * UNIT_BYTES + place;
		int errnum = region_map(region, minimum, -1, 0);
		if (errnum == 0 && !accessible) {
			munmap(region->base, region->bytes);
			region->bytes = 0;
		}
		if (errnum == 0)
			return true;
		if (errnum != EEXIST) {
			give_back(unit, count);
			errno = errnum;
			return false;
		}
	}
	return false;
}

/*
 * Where addresses cannot be chosen, all of them are mapped. If the address space is limited, no
 * region may take so much that none is left for the others: the recorder has about two dozen.
 */
static size_t fair_share(size_t wanted, size_t minimum)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return wanted;
	size_t share = (size_t)(limit.rlim_cur / 64) & ~(GRAIN - 1);
	if (share < minimum)
		share = minimum;
	return share < wanted ? share : wanted;
}

static bool reserve_whole(struct region *region, size_t minimum, bool accessible)
{
	size_t bytes = fair_share(region->limit, minimum);

	for (; bytes >= minimum; bytes = bytes / 2 & ~(GRAIN - 1)) {
		void *base = mmap(NULL, bytes, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (base == MAP_FAILED)
			continue;
		*region = (struct region){.base = base, .limit = bytes, .is_reserved = true};
		if (!accessible || region_map(region, minimum, -1, 0) == 0)
			return true;
		munmap(base, bytes);
		break;
	}
	return false;
}

int region_reserve(struct region *region, size_t limit, size_t minimum, int accessible,
		   struct proton_error *err)
{
	struct region own = {.limit = round_up(limit, GRAIN)};

	minimum = round_up(minimum, GRAIN);
	if (!take_addresses(&own, minimum, accessible) && !reserve_whole(&own, minimum, accessible))
		return err_errno(err, errno, "cannot reserve %zu bytes of address space", minimum);
	*region = own;
	return PROTON_OK;
}

void region_release(struct region *region)
{
	uintptr_t offset = (uintptr_t)region->base - first_address();

	if (region->base && (region->bytes || region->is_reserved))
		munmap(region->base, region->is_reserved ? region->limit : region->bytes);
	if (region->base && !region->is_reserved)
		give_back(offset / UNIT_BYTES,
			  round_up(offset % UNIT_BYTES + region->limit, UNIT_BYTES) / UNIT_BYTES);
	*region = (struct region){0};
}
