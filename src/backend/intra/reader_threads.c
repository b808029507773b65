/* Maximum number of reader threads. */
#include "backend/intra/reader_threads.h"

#include <sched.h>

uint32_t reader_threads_limit(void)
{
	cpu_set_t cores;
	int count = 1;

	/* It fails for more than 1024 cores, which are enough. */
	if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
		return READER_THREADS_MAX;
	count = CPU_COUNT(&cores) / 4;
	if (count < 1)
		return 1;
	return (uint32_t)count < READER_THREADS_MAX ? (uint32_t)count : READER_THREADS_MAX;
}
