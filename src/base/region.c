/* Reserved address space, with a fair share where it is limited. */
#include "base/region.h"

#include <errno.h>
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

int region_reserve(struct region *region, size_t wanted, size_t minimum, int accessible,
		   struct proton_error *err)
{
	int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;

	wanted = fair_share(wanted, minimum);
	for (;;) {
		void *base = mmap(NULL, wanted, protection,
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
