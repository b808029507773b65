/* Memory allocation that ends the program when memory runs out. */
#include "viewer/print/xalloc.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/message.h"

_Noreturn void xgive_up(void)
{
	message("out of memory");
	exit(2);
}

void *xcalloc(size_t count, size_t element_bytes)
{
	void *memory = calloc(count ? count : 1, element_bytes ? element_bytes : 1);

	if (!memory)
		xgive_up();
	return memory;
}

char *xstrndup(const char *text, size_t length)
{
	char *copy = xcalloc(length + 1, 1);

	memcpy(copy, text, length);
	return copy;
}

void xreserve(void *data, size_t *capacity, size_t count, size_t element_bytes)
{
	if (!array_reserve(data, capacity, count, element_bytes))
		xgive_up();
}

void xkeep_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
}
