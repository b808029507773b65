/* Memory allocation that ends the program when memory runs out. */
#include "viewer/print/xalloc.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/message.h"

static void (*give_up)(void);

void xalloc_set_give_up(void (*function)(void))
{
	give_up = function;
}

_Noreturn void xgive_up(void)
{
	if (give_up)
		give_up();
	message("out of memory");
	exit(EXIT_BAD);
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

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xasprintf(const char *format, ...)
{
	char *text;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		xgive_up();
	va_end(arguments);
	return text;
}

void xreserve(void *data, size_t *capacity, size_t count, size_t element_bytes)
{
	if (!array_reserve(data, capacity, count, element_bytes))
		xgive_up();
}

void xkeep_memory(void)
{
	if (give_up) /* the memory is not ours alone */
		return;
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
}
