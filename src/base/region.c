/* Reserved address space, with a fair share where it is limited. */
#include "base/region.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

/*
 * If the address space is limited, no region may take so much that none is left for the others: the
 * recorder has about two dozen.
 */
static size_t fair_share(size_t wanted, size_t minimum)
{
	struct rlimit limit;
	size_t share;

	if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return wanted;
	share = (size_t)(limit.rlim_cur / 64) & ~(size_t)65535;
	if (share < minimum)
		share = minimum;
	return share < wanted ? share : wanted;
}

/*
 * Linux places a mapping right below the previous ones, so large reservations would separate the
 * libraries that were loaded before from those loaded later. Calls over more than 4 GiB are
 * predicted worse: with 300 GB between Python and torch, small operations of torch took 3.5 % more
 * CPU time (Intel Xeon). So regions are placed one below the other, far away from code. These
 * addresses are hints: where one is taken, or the address space is smaller, the kernel chooses.
 */
#define AWAY_FROM_CODE ((uintptr_t)16 << 40)
#define AWAY_BYTES ((uintptr_t)8 << 40) /* then they begin again at the top */

static void *address_hint(size_t bytes)
{
	static _Atomic uintptr_t taken;
	const uintptr_t code = (uintptr_t)region_reserve & ~(uintptr_t)65535;
	uintptr_t end;

	if (code < 2 * AWAY_FROM_CODE || bytes > AWAY_BYTES)
		return NULL;
	bytes = (bytes + 65535) & ~(size_t)65535;
	end = atomic_fetch_add(&taken, bytes) % AWAY_BYTES + bytes;
	return (void *)(code - AWAY_FROM_CODE - end);
}

int region_reserve(struct region *region, size_t wanted, size_t minimum, int accessible,
		   struct proton_error *err)
{
	int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;

	wanted = fair_share(wanted, minimum);
	for (;;) {
		void *base = mmap(address_hint(wanted), wanted, protection,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (base != MAP_FAILED) {
			/* The tables of a profiler do not belong in core dumps of the program. */
			madvise(base, wanted, MADV_DONTDUMP);
			*region = (struct region){.base = base, .bytes = wanted};
			return PROTON_OK;
		}
		if (wanted / 2 < minimum)
			return err_errno(err, errno, "cannot reserve %zu bytes of address space",
					 wanted);
		wanted /= 2;
	}
}

void region_release(struct region *region)
{
	if (region->base)
		munmap(region->base, region->bytes);
	*region = (struct region){0};
}
