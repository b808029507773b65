/*
 * Memory for a command that has nothing better to do without it than to say so and end (status 2).
 */
#ifndef VIEWER_PRINT_XALLOC_H
#define VIEWER_PRINT_XALLOC_H

#include <stddef.h>

/* Says that memory is out and ends the program. */
_Noreturn void xgive_up(void);
/* `count` zeroed elements; never NULL. Freed with free(). */
void *xcalloc(size_t count, size_t element_bytes);
/* A copy of `length` bytes with a NUL behind them. */
char *xstrndup(const char *text, size_t length);
/* array_reserve() that cannot fail. */
void xreserve(void *data, size_t *capacity, size_t count, size_t element_bytes);

#endif
