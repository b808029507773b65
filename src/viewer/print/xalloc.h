/* Memory allocation for a command: on failure, prints a message and exits with status 2. */
#ifndef VIEWER_PRINT_XALLOC_H
#define VIEWER_PRINT_XALLOC_H

#include <stddef.h>

/* Keeps freed memory for the next profile: the kernel would clear the same pages again. */
void xkeep_memory(void);
/* Prints "out of memory" and exits. */
_Noreturn void xgive_up(void);
/* `count` zeroed elements; never NULL. Release with free(). */
void *xcalloc(size_t count, size_t element_bytes);
/* A copy of `length` bytes, terminated by NUL. */
char *xstrndup(const char *text, size_t length);
/* array_reserve() that cannot fail. */
void xreserve(void *data, size_t *capacity, size_t count, size_t element_bytes);

#endif
