/* Reserved address space. See region.h. */
#include "base/region.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

/*
 * Where the address space is limited, no region may take so much that the others find none left:
 * the recorder has some two dozen.
 */
static size_t fair_share(size_t wanted, size_t least)
{
	struct rlimit limit;
	size_t share;

	if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return wanted;
	share = (size_t)(limit.rlim_cur / 64) & ~(size_t)65535;
	if (share < least)
		share = least;
	return share < wanted ? share : wanted;
}

int region_reserve(struct region *region, size_t wanted, size_t least, int accessible,
		   struct proton_error *err)
{
	int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;

	wanted = fair_share(wanted, least);
	for (;;) {
		void *base = mmap(NULL, wanted, protection,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (base != MAP_FAILED) {
			/* A profiler's tables have no place in the program's core dumps. */
			madvise(base, wanted, MADV_DONTDUMP);
			*region = (struct region){.base = base, .bytes = wanted};
			return PROTON_OK;
		}
		if (wanted / 2 < least)
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
